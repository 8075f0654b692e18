import { expect, onTestFinished, test } from "vitest";
import type { KeyEvidence } from "#src/auth/key-evidence.ts";
import { systemClock, systemTimers } from "#src/base/clock.ts";
import { bounds } from "#src/bounds.ts";
import { joinFleet } from "#src/fleet/fleet.ts";
import { fleetTimes } from "#src/fleet/lease.ts";
import { createSecurityState } from "#src/fleet/security-state.ts";
import { createDeleteKeys } from "#src/keys/key-sweep.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { memoryControlStore } from "../harness/memory-control-store.ts";
import { keyRecordOf } from "../harness/store-records.ts";

const folders = tempFolders();

/** An instance of a fleet that nobody nudges, and what it learns of keys. */
async function joinUnnudged(control: ReturnType<typeof memoryControlStore>, name: string) {
  const learned: string[] = [];
  let clears = 0;
  const fleet = await joinFleet({
    ...{ control, clock: systemClock, timers: systemTimers },
    newId: () => name,
    facts: instanceFactsOf(),
    times: { ...fleetTimes, beatMs: 20 },
    apply: (changes) => learned.push(...changes.map(({ id }) => id)),
    clear() {
      clears++;
    },
    nudge: () => {},
  });
  onTestFinished(() => fleet.leave());
  return { fleet, learned, clears: () => clears };
}

test("however many keys a team has, their deletion makes no instance of a fleet drop what it cached", async () => {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(() => stores.close());
  const ids = Array.from({ length: bounds.controlRecentMax + 44 }, (_, n) => `k${n}`);
  for (const id of ids) {
    const key = keyRecordOf({ id, teamId: "demo", revokeTimeMs: 1, revokedBy: "ada", version: 2 });
    await stores.keys.insert(key, { activeMax: ids.length });
  }
  const control = memoryControlStore();
  const { fleet } = await joinUnnudged(control, "deleter");
  const other = await joinUnnudged(control, "other");
  expect(other.clears()).toBe(1);
  const changeSecurityState = createSecurityState<{ key: KeyEvidence }>({
    floors: { key: { raise: () => {} } },
    fleet,
  });
  let steps = 0;
  const deleted: string[] = [];
  const onDeleted = (id: string) => void deleted.push(id);
  await createDeleteKeys({ store: stores.keys, changeSecurityState, onDeleted })("demo", () => steps++);
  expect(deleted.toSorted()).toEqual(ids.toSorted());
  expect(other.clears()).toBe(1);
  // A revocation whose barrier never ended may have left the key active in a cache there.
  expect(other.learned.toSorted()).toEqual(ids.toSorted());
  expect(steps).toBe(Math.ceil((ids.length + 1) / bounds.changesPerPushMax));
  expect(await stores.keys.countRevoked("demo", 1)).toBe(0);
});
