import { expect, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { frame, frameTypes, h2Opening } from "../../harness/h2-frames.ts";
import { keepAliveMs } from "../../harness/open-sockets.ts";
import { rawSocket } from "../../harness/raw-socket.ts";
import { jsonAnswer, serveForTest } from "../../harness/served-handler.ts";

const acknowledged = 1;
const settings = frame({ type: frameTypes.settings, flags: acknowledged, stream: 0 });

/** Works on each request until its caller is gone. */
function endlessHandler() {
  let working = 0;
  const handler: HttpHandler = async (request) => {
    working += 1;
    await new Promise<void>((resolve) => request.signal.addEventListener("abort", () => resolve()));
    working -= 1;
    return jsonAnswer(200, "for nobody");
  };
  return { handler, working: () => working };
}

test("the system asks a silent caller after a minute, whatever it speaks", async () => {
  const { handler, working } = endlessHandler();
  const { port } = await serveForTest(handler);
  const [http1, http2] = [rawSocket({ port }), rawSocket({ port })];
  http1.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  http2.send(Buffer.concat([h2Opening, settings]));
  await expect.poll(working).toBe(1);
  await expect.poll(() => keepAliveMs(port, "server").length).toBe(2);
  for (const ms of keepAliveMs(port, "server")) expect(ms).toBeLessThanOrEqual(60_000);
  for (const { socket } of [http1, http2]) socket.destroy();
  await expect.poll(working).toBe(0);
});
