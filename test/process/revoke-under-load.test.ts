import { afterAll, expect, test } from "vitest";
import { campaignSize, figure, timeFigures } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { everyEntry, makeGuarded } from "../harness/fleet-caller.ts";
import type { RecorderApi, RecorderData } from "../harness/fleet-recorder.ts";
import { manage } from "../harness/keyrun.ts";
import { serveKeyrun } from "../harness/keyrun-process.ts";
import { startThread } from "../harness/thread.ts";

const keysRevoked = campaignSize("revocations");
/** Keys that are used and revoked at the same time. */
const keysAtOnce = 4;

const folders = tempFolders();

const keyrun = await serveKeyrun(folders.create(), { KEYRUN_PLAN_LIMITS: "free=100000" });
const { publicUrl, internalUrl } = keyrun;
const serviceToken = keyrun.serviceToken();
const management = manage(internalUrl, serviceToken);
await makeGuarded(management);
const data: RecorderData = {
  ...{ addresses: [{ publicUrl, internalUrl, serviceToken }], entries: everyEntry, pauseMs: 0 },
  // Each entry has a request of each key under way at any time.
  ...{ lanes: everyEntry.length, usesAround: 3 * everyEntry.length },
};
const recorder = await startThread<RecorderApi>(
  new URL("../harness/fleet-recorder.ts", import.meta.url),
  data,
);

afterAll(async () => {
  await recorder.end();
  management.disconnect();
  keyrun.kill("SIGKILL");
  await keyrun.exited;
});

test(`of ${keysRevoked} keys under load, none is accepted by a request that is sent after the OK to its revocation`, {
  timeout: 180_000 + keysRevoked * 5_000,
}, async () => {
  expect(everyEntry).toHaveLength(8);
  const totals = { before: 0, crossed: 0, inFlight: 0, after: 0 };
  const okMs: number[] = [];
  for (let left = keysRevoked; left > 0; left -= keysAtOnce) {
    const keys = Array.from({ length: Math.min(left, keysAtOnce) }, async () => {
      const { id, teamId, value } = await management.newKey(await management.newTeam());
      return { keyId: id, teamId, value, via: [0] };
    });
    const batch = await recorder.calls.begin(await Promise.all(keys));
    const answers = await recorder.calls.revoke(batch);
    okMs.push(...answers.map(({ ms }) => ms));
    expect(answers.map(({ status }) => status)).toEqual(keys.map(() => 200));
    const tally = await recorder.calls.end(batch);
    expect(tally).toMatchObject({ wrong: [], lost: 0 });
    // The keys were in use while they were revoked.
    expect(tally.crossed).toBeGreaterThanOrEqual(keys.length);
    for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] += tally[name];
  }
  figure("accepted before", totals.before);
  figure("in flight at the OK", totals.crossed);
  figure("of them accepted", totals.inFlight);
  figure("sent after the OK", totals.after);
  figure("of them accepted after the OK", 0);
  timeFigures("a revocation under load", okMs);
});
