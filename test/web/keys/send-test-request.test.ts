import { expect, test } from "vitest";
import { bounds as serverBounds } from "#src/bounds.ts";
import { bounds } from "../../../web/bounds.ts";
import { sendTestRequest } from "../../../web/keys/create/send-test-request.ts";

test("a test request waits longer than any app may take", () => {
  expect(bounds.testRequestMsMax).toBeGreaterThan(serverBounds.appTimeoutMsMax + serverBounds.unaryGraceMs);
});

test("a test request whose dialog is left ends, so that its run does not go on for nobody", async () => {
  const leaving = new AbortController();
  const asked = Promise.withResolvers<AbortSignal | null | undefined>();
  const fetch: typeof globalThis.fetch = (_, { signal } = {}) => {
    asked.resolve(signal);
    return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  };
  const answer = sendTestRequest(fetch, { appId: "echo", isGuard: false, value: "svc_x" }, leaving.signal);
  expect((await asked.promise)?.aborted).toBe(false);
  leaving.abort();
  expect(await answer).toBeNull();
});
