import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { leakBounds } from "#src/auth/policy.ts";
import { bounds } from "#src/bounds.ts";
import { checksumOf } from "#src/keys/key-value.ts";
import type { Stores } from "#src/store/stores.ts";
import { timeFigures } from "../harness/campaigns.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { type LeakReporter, leakReporters, reportedBy } from "../harness/leak-reporters.ts";

let keyrun: Keyrun;
let reporter: LeakReporter;
const store = { reads: 0, running: 0, runningMax: 0 };

/** The real stores; reads of keys are counted, and how many run at once. */
function watched(stores: Stores): Stores {
  const find: Stores["keys"]["find"] = async (keyId) => {
    store.reads += 1;
    store.running += 1;
    store.runningMax = Math.max(store.runningMax, store.running);
    await new Promise((resolve) => setImmediate(resolve));
    return stores.keys.find(keyId).finally(() => {
      store.running -= 1;
    });
  };
  return { ...stores, keys: { ...stores.keys, find } };
}

beforeAll(async () => {
  keyrun = await startKeyrun({
    settings: { KEYRUN_TRUST_PROXY: "1", KEYRUN_PLAN_LIMITS: "free=100000" },
    onStores: watched,
  });
  reporter = leakReporters["REST over HTTP/2"]!(keyrun.publicUrl);
});
afterAll(async () => {
  reporter.close();
  await keyrun.close();
});

const from = (address: string) => ({ "x-forwarded-for": address });
const reported: LeakReporter["report"] = (...report) => reportedBy(reporter, ...report);
const newKey = async () => keyrun.newKey(await keyrun.newTeam());

function wrongSecretOf(value: string): string {
  const unchecked = value.slice(0, 29) + keyrun.unknownKey().slice(29, 72);
  return unchecked + checksumOf(unchecked);
}

test("10,000 wrong reports of one address read the store little, hold up no run and no other report, and leave nothing", async () => {
  const [running, lost] = [await newKey(), await newKey()];
  const readsBefore = store.reads;
  store.runningMax = 0;
  const attacker = from("203.0.113.7");
  const counts = new Map<string, number>();
  let isOver = false;
  const attack = Promise.all(
    Array.from({ length: 100 }, async () => {
      for (let n = 0; n < 100; n++) {
        const value = n % 2 === 0 ? keyrun.unknownKey() : wrongSecretOf(running.value);
        const { reason } = await reporter.report(value, attacker);
        counts.set(reason, (counts.get(reason) ?? 0) + 1);
      }
    }),
  ).finally(() => {
    isOver = true;
  });
  const runs: number[] = [];
  const waits: number[] = [];
  while (!isOver) {
    const begun = performance.now();
    runs.push((await restRun(keyrun.publicUrl, { value: running.value })).status);
    waits.push(performance.now() - begun);
  }
  await attack;
  const other = await reported(lost.value, from("203.0.113.8"));
  expect(other.reason).toBe("OK");
  expect(new Set(runs)).toEqual(new Set([200]));
  // A run that the reports held up would end after them.
  expect(runs.length).toBeGreaterThan(10);
  timeFigures("runs beside 10,000 wrong reports", waits);
  expect([...counts.values()].reduce((sum, count) => sum + count, 0)).toBe(10_000);
  expect([...counts.keys()].filter((reason) => !["KEY_NOT_FOUND", "UNAVAILABLE"].includes(reason))).toEqual(
    [],
  );
  // Each answer that says so has read once, and no other has. What the runs read is cached.
  expect(store.reads - readsBefore).toBeLessThanOrEqual((counts.get("KEY_NOT_FOUND") ?? 0) + 3);
  expect(store.runningMax).toBeLessThanOrEqual(leakBounds.reportsAtOnceMax + 2);
  expect((await restRun(keyrun.publicUrl, { value: running.value })).status).toBe(200);
}, 240_000);

test("reports of many addresses at once never hold more look-ups than their own share", async () => {
  store.runningMax = 0;
  const outcomes = await Promise.all(
    Array.from({ length: 200 }, (_, n) => reported(keyrun.unknownKey(), from(`198.51.100.${n}`))),
  );
  expect(store.runningMax).toBeLessThanOrEqual(leakBounds.reportsAtOnceMax);
  expect(leakBounds.reportsAtOnceMax).toBeLessThan(bounds.lookupsMax / 4);
  expect(new Set(outcomes.map(({ reason }) => reason))).toEqual(new Set(["KEY_NOT_FOUND"]));
});

test("an unknown id costs one read of the store, as a wrong secret does; their times are figures", async () => {
  const known = (await newKey()).value;
  const timesMs: Record<"unknown id" | "wrong secret", number[]> = { "unknown id": [], "wrong secret": [] };
  for (let n = 0; n < 400; n++) {
    const [kind, value] =
      n % 2 === 0
        ? (["unknown id", keyrun.unknownKey()] as const)
        : (["wrong secret", wrongSecretOf(known)] as const);
    const [begun, readsBefore] = [performance.now(), store.reads];
    const { reason } = await reporter.report(value, from(`192.0.2.${n % 250}`));
    timesMs[kind].push(performance.now() - begun);
    expect([reason, store.reads - readsBefore]).toEqual(["KEY_NOT_FOUND", 1]);
  }
  for (const [kind, times] of Object.entries(timesMs)) timeFigures(`report, ${kind}`, times);
});

test("100 reports of one key from many addresses while it runs: one revocation, and no run after an answer", async () => {
  const key = await newKey();
  let accepted = 0;
  const first = Promise.withResolvers<void>();
  const reports = Array.from({ length: 100 }, async (_, n) => {
    const outcome = await reported(key.value, from(`100.64.0.${n}`));
    first.resolve();
    return outcome;
  });
  await first.promise;
  for (let n = 0; n < 20; n++) {
    if ((await restRun(keyrun.publicUrl, { value: key.value })).status === 200) accepted += 1;
  }
  const outcomes = await Promise.all(reports);
  expect(accepted).toBe(0);
  expect(new Set(outcomes.map(({ answer }) => answer?.revokeTime)).size).toBe(1);
  expect(outcomes.every(({ reason }) => reason === "OK")).toBe(true);
});
