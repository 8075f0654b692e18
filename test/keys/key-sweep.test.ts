import { expect, onTestFinished, test } from "vitest";
import { keyLifeBounds } from "#src/keys/key-life.ts";
import type { KeyStore } from "#src/keys/key-store.ts";
import { createKeySweep } from "#src/keys/key-sweep.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { keyRecordOf } from "../harness/store-records.ts";

const folders = tempFolders();

/** A sweep of a real store, every few milliseconds. The steps of `failing` fail. */
async function startSweep() {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  const clock = createManualClock();
  let shortBy: unknown;
  const failing = new Set<"expire" | "settle" | "count">();
  const seen = { sweeps: 0, failures: [] as unknown[], told: [] as string[] };
  const store: KeyStore = {
    ...stores.keys,
    async settlePending(order) {
      if (failing.has("settle")) throw unavailable();
      const settled = await stores.keys.settlePending(order);
      return shortBy === undefined ? settled : { ...settled, failed: shortBy };
    },
    async countExpiring(span) {
      if (failing.has("count")) throw unavailable();
      return stores.keys.countExpiring(span);
    },
  };
  const sweep = createKeySweep({
    ...{ clock, store, sweepMs: 2 },
    async expireKeys() {
      seen.sweeps += 1;
      if (failing.has("expire")) throw unavailable();
    },
    changeSecurityState: (_, write) => write(),
    revoking: async () => {},
    publish: ({ kind, key }) => void seen.told.push(`${kind} ${key.id}`),
    withLastUse: (key) => key,
    onRevoked: ({ id }) => void seen.told.push(`final ${id}`),
    onFailed: (cause) => void seen.failures.push(cause),
  });
  onTestFinished(async () => {
    await sweep.close();
    await stores.close();
  });
  const nextSweeps = async () => {
    const { sweeps } = seen;
    await expect.poll(() => seen.sweeps > sweeps + 3).toBe(true);
  };
  /** From here on, the store does some of the work and then fails. */
  const cutShort = (cause: unknown) => {
    shortBy = cause;
  };
  return { clock, failing, cutShort, keys: stores.keys, seen, sweep, nextSweeps };
}

test("a step that fails keeps no other from its work", async () => {
  const { clock, failing, keys, sweep } = await startSweep();
  const nowMs = clock.unixMs();
  const key = keyRecordOf({ id: "a", teamId: "demo", pendingSinceMs: 1, expireTimeMs: nowMs + 90_000 });
  await keys.insert(key, { activeMax: 9 });
  await keys.insert({ ...key, id: "b", pendingSinceMs: null }, { activeMax: 9 });
  failing.add("expire");
  sweep.start();
  await expect.poll(async () => (await keys.find("a"))?.revokeTimeMs).toBe(nowMs);
  await expect.poll(sweep.expiringKeys).toBe(1);
});

test("an outage is told once for each step, and so is the next one", async () => {
  const { clock, failing, seen, sweep, nextSweeps } = await startSweep();
  const outage = async () => {
    for (const step of ["expire", "settle", "count"] as const) failing.add(step);
    for (let n = 0; n < 3; n++) {
      clock.advance(60_000);
      await nextSweeps();
    }
  };
  sweep.start();
  await nextSweeps();
  expect(seen.failures).toHaveLength(0);
  await outage();
  expect(seen.failures).toHaveLength(3);
  failing.clear();
  clock.advance(60_000);
  await nextSweeps();
  expect(seen.failures).toHaveLength(3);
  await outage();
  expect(seen.failures).toHaveLength(6);
});

test("a rotation that was cut off once it was done is completed, and those who watch are told", async () => {
  const { clock, keys, seen, sweep } = await startSweep();
  const since = clock.unixMs();
  for (const end of [{ expireTimeMs: since + 90_000 }, { revokeTimeMs: 5, revokedBy: "ada" }]) {
    const id = "expireTimeMs" in end ? "a" : "b";
    const old = { id, teamId: "demo", replacedByKeyId: `${id}2`, ...end };
    await keys.insert(keyRecordOf(old), { activeMax: 9 });
    const chain = { replacesKeyId: id, firstKeyId: id, pendingSinceMs: since };
    await keys.insert(keyRecordOf({ id: `${id}2`, teamId: "demo", ...chain }), { activeMax: 9 });
  }
  clock.advance(keyLifeBounds.pendingMsMax - 1);
  sweep.start();
  await expect.poll(() => seen.sweeps > 3).toBe(true);
  expect(seen.told).toEqual([]);
  clock.advance(1);
  await expect
    .poll(() => seen.told.toSorted())
    .toEqual(["changed a", "created a2", "created b2", "final b", "revoked b"]);
  expect(await keys.find("b2")).toMatchObject({ pendingSinceMs: null, revokeTimeMs: null, version: 2 });
});

test("what a sweep did before the store failed is told all the same", async () => {
  const { clock, keys, seen, sweep, cutShort } = await startSweep();
  const since = clock.unixMs();
  const chain = { replacesKeyId: "a", firstKeyId: "a", pendingSinceMs: since };
  const old = { id: "a", teamId: "demo", replacedByKeyId: "a2", revokeTimeMs: 5, revokedBy: "ada" };
  await keys.insert(keyRecordOf(old), { activeMax: 9 });
  await keys.insert(keyRecordOf({ id: "a2", teamId: "demo", ...chain }), { activeMax: 9 });
  const cause = unavailable();
  cutShort(cause);
  clock.advance(keyLifeBounds.pendingMsMax);
  sweep.start();
  await expect.poll(() => seen.told).toEqual(["created a2", "revoked a", "final a"]);
  await expect.poll(() => seen.failures).toEqual([cause]);
});
