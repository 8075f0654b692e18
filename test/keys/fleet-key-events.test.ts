import { expect, test } from "vitest";
import type { ControlChange } from "#src/fleet/control-store.ts";
import { createFleetKeyEvents, createKeyEvents } from "#src/keys/key-events.ts";
import { deletedKeyVersion } from "#src/keys/key-life.ts";
import type { KeyRecord } from "#src/keys/key-store.ts";
import { fail } from "#src/refusal/refusal.ts";
import { keyRecordOf } from "../harness/store-records.ts";

const long = 60_000;
const created = (id: string, teamId = "demo"): ControlChange => ({ kind: "key", id, version: 1, teamId });
const revoked = (id: string, teamId = "demo"): ControlChange => ({ kind: "key", id, version: 2, teamId });

function setUp(limits: { waitingMax?: number; readsMax?: number } = {}) {
  const stored = new Map<string, KeyRecord>();
  const store = { reads: [] as string[], running: 0, runningMax: 0, answers: async () => {} };
  const events = createKeyEvents({ watchersMax: 10, perTeamMax: 5, queueMax: 1_000 });
  const fleetEvents = createFleetKeyEvents({
    events,
    async find(id) {
      store.reads.push(id);
      store.running += 1;
      store.runningMax = Math.max(store.runningMax, store.running);
      await store.answers();
      store.running -= 1;
      return stored.get(id);
    },
    lastUseTimeMs: (id, storedMs) => (id === "used" ? 5_000 : storedMs),
    ...limits,
  });
  const keep = (id: string, facts: Partial<KeyRecord> = {}) =>
    stored.set(id, keyRecordOf({ id, teamId: "demo", ...facts }));
  return { events, fleetEvents, store, keep };
}

test("a watched team gets each change once, as it is stored and in the order of the fleet", async () => {
  const { events, fleetEvents, store, keep } = setUp();
  const watch = events.watch("demo");
  keep("a", { revokeTimeMs: 7, revokedBy: "lin@example.com", version: 2 });
  keep("used");
  fleetEvents.apply([created("a"), created("used"), created("x", "other"), revoked("a")]);
  expect(await watch.next(long)).toMatchObject({
    kind: "created",
    key: { id: "a", revokeTimeMs: null, version: 1 },
  });
  expect(await watch.next(long)).toMatchObject({
    kind: "created",
    key: { id: "used", lastUseTimeMs: 5_000 },
  });
  expect(await watch.next(long)).toMatchObject({
    kind: "revoked",
    key: { id: "a", revokeTimeMs: 7, revokedBy: "lin@example.com" },
  });
  fleetEvents.apply([revoked("a")]);
  expect(await watch.next(long)).toMatchObject({ kind: "revoked", key: { id: "a" } });
  expect(await watch.next(1)).toBe("quiet");
  expect(store.reads).toEqual(["a", "used", "a"]);
});

test("nothing is read for a team that nobody watches, for other kinds, and for keys that are deleted", async () => {
  const { events, fleetEvents, store } = setUp();
  const watch = events.watch("demo");
  fleetEvents.apply([
    created("x", "other"),
    { kind: "key", id: "y", version: 1 },
    { ...created("z"), version: deletedKeyVersion },
    { kind: "team", id: "demo", version: 2, teamId: "demo" },
  ]);
  expect(await watch.next(1)).toBe("quiet");
  expect(store.reads).toEqual([]);
});

test("a key that is gone again is not told", async () => {
  const { events, fleetEvents, keep } = setUp();
  const watch = events.watch("demo");
  keep("b");
  fleetEvents.apply([created("gone"), created("b")]);
  expect(await watch.next(long)).toMatchObject({ key: { id: "b" } });
});

test("a successor that was revoked before it could be used is told as revoked, never as created", async () => {
  const { events, fleetEvents, keep } = setUp();
  const watch = events.watch("demo");
  keep("b", { replacesKeyId: "a", version: 2, revokeTimeMs: 7, revokedBy: "Keyrun" });
  fleetEvents.apply([revoked("b")]);
  expect(await watch.next(long)).toMatchObject({ kind: "revoked", key: { id: "b", revokeTimeMs: 7 } });
  keep("b", { replacesKeyId: "a", version: 3, revokeTimeMs: 7, revokedBy: "Keyrun" });
  fleetEvents.apply([{ ...created("b"), version: 2 }]);
  expect(await watch.next(long)).toMatchObject({ kind: "created", key: { id: "b", revokeTimeMs: null } });
});

test("a key that was relabelled, replaced or has expired is told as changed, whatever its version", async () => {
  const { events, fleetEvents, keep } = setUp();
  const watch = events.watch("demo");
  keep("a", { label: "new", expiredTimeMs: 9, version: 8 });
  fleetEvents.apply([created("a"), { ...created("a"), version: 7 }]);
  expect(await watch.next(long)).toMatchObject({ kind: "created", key: { expiredTimeMs: null, version: 1 } });
  expect(await watch.next(long)).toMatchObject({ kind: "changed", key: { label: "new", expiredTimeMs: 9 } });
});

test("many changes at once are few reads at once, one for each key of a batch, and stay in order", async () => {
  const { events, fleetEvents, store, keep } = setUp({ readsMax: 4 });
  const watch = events.watch("demo");
  const answers = Promise.withResolvers<void>();
  store.answers = () => answers.promise;
  const ids = Array.from({ length: 50 }, (_, n) => `k${n}`);
  for (const id of ids) keep(id);
  fleetEvents.apply(ids.flatMap((id) => [created(id), created(id)]));
  for (const id of ids) {
    keep(id, { revokeTimeMs: 7, revokedBy: "ada@example.com", version: 2 });
    fleetEvents.apply([revoked(id)]);
  }
  answers.resolve();
  const told: string[] = [];
  for (let n = 0; n < 3 * ids.length; n++) {
    const event = await watch.next(long);
    told.push(event === "quiet" ? event : `${event.kind} ${event.key.id}`);
  }
  expect(told).toEqual([
    ...ids.flatMap((id) => [`created ${id}`, `created ${id}`]),
    ...ids.map((id) => `revoked ${id}`),
  ]);
  expect(store.runningMax).toBeLessThanOrEqual(4);
  expect(store.reads.length).toBeLessThan(3 * ids.length);
});

test("the watches of a team whose key can't be read are ended, and no others", async () => {
  const { events, fleetEvents, store, keep } = setUp();
  const [lost, other] = [events.watch("demo"), events.watch("other")];
  keep("o", { teamId: "other" });
  store.answers = async () => {
    if (store.reads.at(-1) === "a") throw fail("UNAVAILABLE");
  };
  fleetEvents.apply([created("a")]);
  await expect(lost.next(long)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  fleetEvents.apply([created("o", "other")]);
  expect(await other.next(long)).toMatchObject({ kind: "created", key: { id: "o" } });
});

test("changes that were missed, or are too many, end every watch, and new ones open", async () => {
  const { events, fleetEvents, keep } = setUp({ waitingMax: 3 });
  const words = { reason: "UNAVAILABLE", message: expect.stringContaining("list the keys") };
  const first = [events.watch("demo"), events.watch("other")];
  fleetEvents.missed();
  for (const watch of first) await expect(watch.next(long)).rejects.toMatchObject(words);
  const second = events.watch("demo");
  fleetEvents.apply(["a", "b", "c", "d"].map((id) => created(id)));
  await expect(second.next(long)).rejects.toMatchObject(words);
  const third = events.watch("demo");
  keep("e");
  fleetEvents.apply([created("e")]);
  expect(await third.next(long)).toMatchObject({ key: { id: "e" } });
});
