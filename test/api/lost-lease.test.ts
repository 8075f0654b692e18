import { expect, onTestFinished, test, vi } from "vitest";
import { VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { bounds } from "#src/bounds.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRunOnce } from "../harness/keyrun-process.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers } from "../harness/stream-callers.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

let isValid = true;
let holdsAfterRead = true;
let appCount = 0;

const keyrun = closedAtEnd(
  await startKeyrun({
    onStores: (stores) => ({
      ...stores,
      guard: { ...stores.guard, isValid: () => isValid },
      keys: {
        ...stores.keys,
        async find(keyId) {
          const key = await stores.keys.find(keyId);
          isValid = holdsAfterRead;
          return key;
        },
      },
    }),
  }),
);

test("an instance that lost its hold on the store accepts no key, even a cached one", async () => {
  const { value } = await keyrun.newKey("demo");
  const run = () => restRunOnce(keyrun.publicUrl, { value });
  const ready = async () => (await fetch(`${keyrun.publicUrl}/readyz`)).status;
  expect((await run()).status).not.toBe(503);
  expect((await keyrun.keys.verifyKey({ value })).verdict).toBe(Verdict.VALID);
  expect(await ready()).toBe(200);

  isValid = false;
  expect((await run()).status).toBe(503);
  await expect(keyrun.keys.verifyKey({ value })).rejects.toThrow("[unavailable]");
  expect(await ready()).toBe(503);

  isValid = true;
  expect((await keyrun.keys.verifyKey({ value })).verdict).toBe(Verdict.VALID);
  expect(await ready()).toBe(200);
});

test("an instance that loses its hold while it reads a key does not accept it, by either handler", async () => {
  const [ofRun, ofVerify] = [await keyrun.newKey("demo"), await keyrun.newKey("demo")];
  holdsAfterRead = false;
  const run = await restRunOnce(keyrun.publicUrl, ofRun);
  expect([run.status, isValid]).toEqual([503, false]);
  isValid = true;
  await expect(keyrun.keys.verifyKey({ value: ofVerify.value })).rejects.toThrow("[unavailable]");
  expect(isValid).toBe(false);
  isValid = true;
  holdsAfterRead = true;
});

test.each(Object.entries({ ...restStreamCallers, ...connectStreamCallers }))(
  "a stream that runs when its instance loses its hold ends at the next check, by %s",
  async (_, make) => {
    const app = await startTalkingApp();
    const caller = make(keyrun.publicUrl);
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(async () => {
      vi.useRealTimers();
      isValid = true;
      caller.close();
      await app.close();
    });
    appCount += 1;
    const appId = `talk-${appCount}`;
    await keyrun.apps.createApp({ app: { id: appId, backend: app.backend } });
    const { value } = await keyrun.newKey("demo");
    const stream = caller.open({ appId, authorization: `Bearer ${value}`, text: "hello" });
    const first = stream.next();
    const talk = await app.talk("hello");
    talk.say("one");
    expect(await first).toMatchObject({ kind: "started" });
    expect(await stream.next()).toEqual({ kind: "delta", text: "one" });
    isValid = false;
    const end = stream.next();
    await vi.advanceTimersByTimeAsync(bounds.streamRecheckMs);
    expect(await end).toMatchObject({ kind: "refused", reason: "UNAVAILABLE" });
  },
);
