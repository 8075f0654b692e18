import { Code } from "@connectrpc/connect";
import { expect, onTestFinished, test, vi } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers } from "../harness/stream-callers.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

const drainMsMax = 4_000;

const app = closedAtEnd(await startTalkingApp());
const keyrun = await startKeyrun({ settings: { KEYRUN_DRAIN_MS_MAX: String(drainMsMax) } });
await keyrun.apps.createApp({ app: { id: "talk", backend: app.backend } });

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
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const closed = keyrun.close();
  for (const { talk } of opened) talk.say("in the drain");
  for (const { name, stream } of opened) {
    expect(await stream.next(), name).toEqual({ kind: "delta", text: "in the drain" });
  }
  await vi.advanceTimersByTimeAsync(drainMsMax - 1);
  for (const { name, ends, stream, talk } of opened) {
    if (!ends) continue;
    talk.end();
    expect(await stream.next(), name).toEqual({ kind: "end" });
  }
  const cutOff = opened.filter(({ ends }) => !ends);
  const told = cutOff.map(({ stream }) => stream.next());
  await vi.advanceTimersByTimeAsync(drainMsMax);
  const cut = { kind: "refused", code: Code.Unavailable, reason: "UNAVAILABLE" };
  expect(await Promise.all(told)).toEqual(cutOff.map(() => cut));
  await closed;
  await Promise.all(opened.map(({ talk }) => talk.over));
  for (const { caller } of opened) caller.close();
});
