import { expect, onTestFinished, test } from "vitest";
import { startKeyrun } from "../harness/keyrun.ts";
import { answersIn, rawSocket } from "../harness/raw-socket.ts";

test("an idle connection is kept for as long as KEYRUN_KEEP_ALIVE_S says, on both listeners", async () => {
  for (const [settings, seconds] of [
    [{}, 65],
    [{ KEYRUN_KEEP_ALIVE_S: "620" }, 620],
  ] as const) {
    const keyrun = await startKeyrun({ settings });
    onTestFinished(() => keyrun.close());
    for (const url of [keyrun.publicUrl, keyrun.internalUrl]) {
      const client = rawSocket({ port: Number(new URL(url).port) });
      client.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
      const [answer] = answersIn(await client.until((heard) => answersIn(heard).length > 0));
      expect(answer?.headers.get("keep-alive")).toBe(`timeout=${seconds}, max=10000`);
      client.socket.destroy();
    }
  }
});
