import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { manage } from "../harness/keyrun.ts";
import { keyrunPlaces } from "../harness/keyrun-places.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { startNameServer } from "../harness/name-server.ts";

const { place: placeOn } = keyrunPlaces();

const preload = fileURLToPath(new URL("../harness/other-name-files.ts", import.meta.url));
const pendingRuns = 24;

test("the process ends when it has said that it stopped, whatever is still pending in it", async () => {
  await using names = await startNameServer();
  const keyrun = await placeOn({
    NODE_OPTIONS: `--import ${preload}`,
    KEYRUN_TEST_RESOLV_CONF: names.files().resolver,
    KEYRUN_DRAIN_MS_MAX: "200",
  }).start();
  const { apps, newKey, disconnect } = manage(keyrun.internalUrl, keyrun.serviceToken());
  for (let at = 0; at < pendingRuns; at += 1) {
    names.set(`silent-${at}.example`, "silent");
    const kind =
      at % 2 === 0
        ? ({ case: "http", value: { url: `http://silent-${at}.example/` } } as const)
        : ({ case: "grpc", value: { target: `silent-${at}.example:9001`, tls: false } } as const);
    await apps.createApp({ app: { id: `silent-${at}`, backend: { kind } } });
  }
  const { value } = await newKey("demo");
  disconnect();
  const runs = Array.from({ length: pendingRuns }, (_, at) =>
    restRun(keyrun.publicUrl, { value, appId: `silent-${at}` }),
  );
  await expect.poll(() => new Set(names.asked).size).toBe(pendingRuns);

  keyrun.kill("SIGTERM");
  await keyrun.until(() => keyrun.stderr().includes('"msg":"stopped"'));
  // A timer of the preload is never over.
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
  for (const { status } of await Promise.all(runs)) expect(status).toBe(503);
});
