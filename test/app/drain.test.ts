import { expect, onTestFinished, test } from "vitest";
import { connectCallers } from "../harness/callers.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRun, statusOf } from "../harness/keyrun-process.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

/** Keyrun with a key and the app `scripted`, which answers when the test says so. */
async function serve(settings: Record<string, string>) {
  const app = await startScriptedApp();
  const keyrun = await startKeyrun({ settings });
  onTestFinished(async () => {
    await keyrun.close();
    await app.close();
  });
  await keyrun.apps.createApp({ app: { id: "scripted", backend: app.backend } });
  return { app, keyrun, ...(await keyrun.newKey("demo")) };
}

test("with a drain delay /readyz fails at once, and new connections are served until the delay is over", async () => {
  const { keyrun, value } = await serve({ KEYRUN_DRAIN_DELAY_MS: "4000" });
  const { publicUrl } = keyrun;
  const closed = keyrun.app.close();
  expect(await statusOf(`${publicUrl}/readyz`)).toBe(503);
  // Each request of `fetch` to a listener that drains has a connection of its own.
  expect((await restRun(publicUrl, { value })).status).toBe(200);
  expect(await statusOf(`${publicUrl}/healthz`)).toBe(200);
  await closed;
  expect(await statusOf(`${publicUrl}/healthz`)).toBe(0);
});

test("runs past the drain's time get 503 and must not be repeated, over REST and gRPC", async () => {
  const { app, keyrun, value } = await serve({ KEYRUN_DRAIN_MS_MAX: "200" });
  const caller = (connectCallers.gRPC ?? expect.fail())(keyrun.publicUrl);
  const rest = restRun(keyrun.publicUrl, { value, appId: "scripted", text: "wait" });
  const rpc = caller.run({ appId: "scripted", text: "wait", authorization: `Bearer ${value}` });
  await app.waits(2);
  await keyrun.app.close();
  const { status, headers, body } = await rest;
  expect(status).toBe(503);
  expect(headers.get("x-should-retry")).toBe("false");
  expect(headers.get("retry-after")).toBe("1");
  expect(headers.get("ratelimit-policy")).toContain('"team"');
  expect(JSON.parse(body).error.code).toBe("unavailable");
  const outcome = await rpc;
  expect(outcome).toMatchObject({ kind: "refused", details: [{ reason: "UNAVAILABLE" }, {}] });
  expect(outcome.headers.get("x-should-retry")).toBe("false");
  await expect.poll(() => keyrun.logLines.join("")).toContain('"aborted":2');
  caller.close();
});
