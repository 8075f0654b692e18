import { afterAll, beforeAll, expect, test } from "vitest";
import { unlessStalled } from "../harness/eventually.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { postConnect } from "../harness/post-connect.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

let keyrun: Keyrun;
let app: Awaited<ReturnType<typeof startScriptedApp>>;

beforeAll(async () => {
  app = await startScriptedApp();
  keyrun = await startKeyrun();
  await keyrun.apps.createApp({ app: { id: "scripted", backend: app.backend } });
});

afterAll(async () => {
  await keyrun.close();
  await app.close();
});

// Sent by hand, because a client library would give up by itself and not show the server's answer.
async function runWithin(timeoutMs: number, value: string) {
  const response = await postConnect(keyrun.publicUrl, "RunService/RunApp", {
    token: value,
    headers: { "Connect-Timeout-Ms": String(timeoutMs) },
    body: JSON.stringify({ appId: "scripted", text: "wait" }),
  });
  const told = (await response.json()) as { code: string; details?: unknown };
  return { code: told.code, details: told.details, retry: response.headers.get("x-should-retry") };
}

test("a caller's deadline ends its run with DEADLINE_EXCEEDED, and the answer says that repeating may do the work twice", async () => {
  const { value } = await keyrun.newKey("demo");
  // Only a run that has begun may have done its work.
  await unlessStalled(250, async () => {
    expect(await runWithin(500, value)).toEqual({
      code: "deadline_exceeded",
      // A deadline is the caller's own, and its refusal is a framework's: it has no details.
      details: undefined,
      retry: "false",
    });
  });
});
