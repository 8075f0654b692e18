import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers } from "../harness/stream-callers.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

let keyrun: Keyrun;
let app: Awaited<ReturnType<typeof startTalkingApp>>;

beforeAll(async () => {
  app = await startTalkingApp();
  keyrun = await startKeyrun({ settings: { KEYRUN_DRAIN_MS_MAX: "4000" } });
  await keyrun.apps.createApp({ app: { id: "talk", backend: app.backend } });
});

afterAll(() => app.close());

test("streams have the time of a drain, and are then told that Keyrun is not available", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam());
  const makers = Object.entries({ ...restStreamCallers, ...connectStreamCallers });
  const opened = await Promise.all(
    makers.flatMap(([name, make]) =>
      [true, false].map(async (ends) => {
        const caller = make(keyrun.publicUrl);
        const text = `${name} ${ends}`;
        const stream = caller.open({ appId: "talk", text, authorization: `Bearer ${value}` });
        const first = stream.next();
        const talk = await app.talk(text);
        talk.begin();
        expect((await first).kind).toBe("started");
        return { name, ends, caller, stream, talk };
      }),
    ),
  );
  const closed = keyrun.close();
  for (const { talk, ends } of opened) {
    talk.say("in the drain");
    if (ends) talk.end();
  }
  const told = await Promise.all(
    opened.map(async ({ name, ends, stream }) => {
      expect(await stream.next(), name).toEqual({ kind: "delta", text: "in the drain" });
      return { name, ends, end: await stream.next() };
    }),
  );
  const cut = { kind: "refused", code: Code.Unavailable, reason: "UNAVAILABLE" };
  for (const { name, ends, end } of told) expect(end, name).toEqual(ends ? { kind: "end" } : cut);
  await closed;
  await Promise.all(opened.map(({ talk }) => talk.over));
  for (const { caller } of opened) caller.close();
});
