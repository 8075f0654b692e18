import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { KeyStore, RotateKeyOrder } from "#src/keys/key-store.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import { connectMongo, type MongoConnection } from "#src/store/mongo/connection.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { createKeyStore } from "#src/store/mongo/key-store.ts";
import { prepareDatabase } from "#src/store/mongo/schema.ts";
import { createStoreCall, type StoreCall } from "#src/store/mongo/store-call.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { keyRecordOf } from "../../harness/store-records.ts";

describeWith(mongodbMissing)("a rotation while the store fails", () => {
  const databases = createMongoDatabases();
  const plain = createStoreCall(20_000);
  let connection: MongoConnection;
  let keys: KeyStore;
  let calls = 0;
  let fails:
    | { from: number; until: number; when: "before" | "after"; meanwhile?: () => Promise<unknown> }
    | undefined;
  let teamId = "";

  const failing: StoreCall = async (work) => {
    const n = calls++;
    const isFailing = fails !== undefined && n >= fails.from && n < fails.until;
    if (isFailing) await fails?.meanwhile?.();
    if (isFailing && fails?.when === "before") throw unavailable();
    const result = await plain(work);
    if (isFailing) throw unavailable();
    return result;
  };

  beforeAll(async () => {
    const patient = { selectionMsMax: 20_000, socketMsMax: 20_000 };
    connection = await connectMongo(databases.createUri(), patient);
    await prepareDatabase(collectionsOf(connection.db));
    keys = createKeyStore(collectionsOf(connection.db), failing, (write) => write());
  });
  afterAll(async () => {
    await connection.client.close();
    await databases.drop();
  });
  let teams = 0;
  beforeEach(() => {
    teamId = `team${teams++}`;
    fails = undefined;
  });

  const ends: Readonly<Record<string, RotateKeyOrder["end"]>> = {
    revoked: { kind: "revoke", revokeTimeMs: 5, revokedBy: "a service" },
    expiring: { kind: "expire", expireTimeMs: 70 },
  };
  /** Without an overlap: two reads and the insert, then the old key's write and the successor's. */
  const endWrite = { revoked: 3, expiring: 4 };

  async function rotation(end: "revoked" | "expiring", id = "b", version = 1): Promise<RotateKeyOrder> {
    const keyId = `${teamId}a`;
    if (version === 1) await keys.insert(keyRecordOf({ id: keyId, teamId }), { activeMax: 9 });
    const chain = { replacesKeyId: keyId, firstKeyId: keyId, version: 2, createTimeMs: 100 };
    const successor = keyRecordOf({ id: teamId + id, teamId, ...chain });
    calls = 0;
    return { teamId, keyId, version, successor, end: ends[end]! };
  }

  describe.each(["before", "after"] as const)("fails %s a write", (when) => {
    test.each(["revoked", "expiring"] as const)("once or twice, is done all the same: %s", async (end) => {
      for (const n of [0, 1]) {
        for (const times of [1, 2]) {
          teamId = `team${teams++}`;
          const order = await rotation(end);
          const from = endWrite[end] + n;
          fails = { from, until: from + times, when };
          const outcome = await keys.rotate(order);
          fails = undefined;
          expect(outcome).toMatchObject({ kind: "rotated", successor: order.successor });
          expect(await keys.find(order.successor.id)).toEqual(order.successor);
          expect(await keys.find(order.keyId)).toMatchObject({
            replacedByKeyId: order.successor.id,
            version: 2,
          });
        }
      }
    });

    test("for long, hands over the old key as it is stored, so that it can be announced", async () => {
      const order = await rotation("revoked");
      fails = { from: endWrite.revoked + 1, until: Number.POSITIVE_INFINITY, when };
      const outcome = await keys.rotate(order);
      fails = undefined;
      expect(outcome).toMatchObject({ kind: "cut_off", cause: { reason: "UNAVAILABLE" } });
      expect(outcome).toHaveProperty("replaced", await keys.find(order.keyId));
    });
  });

  const sweep = { sinceMs: 100, revokeTimeMs: 200, revokedBy: "Keyrun", limit: 9 };
  /** Stops a rotation before its call `at`, does the work, and lets the rotation try it again. */
  function meanwhile(order: RotateKeyOrder, at: number, work: (keys: KeyStore) => Promise<unknown>) {
    const other = createKeyStore(collectionsOf(connection.db), plain, (write) => write());
    fails = { from: at, until: at + 1, when: "before", meanwhile: () => work(other) };
    return keys.rotate(order);
  }

  test("a sweep in the middle takes back what the old key does not name yet, and completes the rest", async () => {
    const early = await rotation("expiring");
    expect(await meanwhile(early, endWrite.expiring, (other) => other.settlePending(sweep))).toEqual({
      kind: "changed",
    });
    expect(await keys.find(early.successor.id)).toBeUndefined();
    const whole = { replacedByKeyId: null, expireTimeMs: null, version: 2 };
    expect(await keys.find(early.keyId)).toMatchObject(whole);
    teamId = `team${teams++}`;
    const late = await rotation("expiring");
    const outcome = await meanwhile(late, endWrite.expiring + 1, (other) => other.settlePending(sweep));
    expect(outcome).toMatchObject({ kind: "rotated", successor: late.successor });
    expect(await keys.find(late.successor.id)).toEqual(late.successor);
  });

  test("a successor that was revoked in between frees the old key, which is rotated again", async () => {
    const order = await rotation("expiring");
    const { id: keyId } = order.successor;
    const revocation = { teamId, keyId, revokeTimeMs: 200, revokedBy: "ada" };
    const outcome = await meanwhile(order, endWrite.expiring + 1, (other) => other.revoke(revocation));
    expect(outcome).toMatchObject({ kind: "cut_off", replaced: { replacedByKeyId: null, version: 3 } });
    fails = undefined;
    expect((await keys.rotate(await rotation("revoked", "c", 3))).kind).toBe("rotated");
  });

  test("a successor that was completed and replaced in between stays the old key's, and no bound is passed", async () => {
    const order = await rotation("expiring");
    const { id: replacedByKeyId } = order.successor;
    const chain = { replacesKeyId: replacedByKeyId, firstKeyId: order.keyId, createTimeMs: 150 };
    const next = keyRecordOf({ id: `${teamId}c`, teamId, version: 2, ...chain });
    const outcome = await meanwhile(order, endWrite.expiring + 1, async (other) => {
      await other.settlePending(sweep);
      const { kind } = await other.rotate({
        ...{ teamId, keyId: replacedByKeyId, version: 2, successor: next },
        end: ends.revoked!,
      });
      expect(kind).toBe("rotated");
    });
    fails = undefined;
    expect(outcome).toMatchObject({ kind: "cut_off", replaced: { replacedByKeyId } });
    expect(await keys.find(order.keyId)).toMatchObject({ replacedByKeyId, expireTimeMs: 70, version: 2 });
    expect((await keys.rotate(await rotation("revoked", "d", 2))).kind).toBe("changed");
    expect(await keys.countActive(teamId)).toBe(1);
  });

  const requestId = "11111111-2222-4333-8444-555555555555";
  test.each(["revoked", "expiring"] as const)(
    "the repeat of a request that was cut off before it was done does it, and one after that is told so: %s",
    async (end) => {
      for (const isDone of [false, true]) {
        teamId = `team${teams++}`;
        const order = await rotation(end);
        const asked = { ...order, successor: { ...order.successor, requestId } };
        fails = { from: endWrite[end] + (isDone ? 1 : 0), until: Number.POSITIVE_INFINITY, when: "before" };
        const outcome = await keys.rotate(asked).catch(() => "failed");
        fails = undefined;
        expect(outcome).toEqual(isDone ? expect.objectContaining({ kind: "cut_off" }) : "failed");
        const { version } = (await keys.find(order.keyId))!;
        const again = { ...asked, version, successor: { ...asked.successor, id: `${teamId}c` } };
        if (isDone) {
          const used = { kind: "request_id_used", keyId: order.successor.id };
          expect(await keys.rotate(again)).toEqual(used);
        } else {
          expect(await keys.rotate(again)).toEqual({ kind: "changed" });
          expect((await keys.rotate({ ...again, version: version + 1 })).kind).toBe("rotated");
          expect(await keys.find(order.successor.id)).toBeUndefined();
        }
      }
    },
  );

  test("another rotation that is done in between is seen as one, and not as an older key that still works", async () => {
    const order = await rotation("expiring");
    const other = { ...order, successor: { ...order.successor, id: `${teamId}c` } };
    let at = 0;
    const slowly: StoreCall = async (work) => {
      at += 1;
      // Its third call looks for such a key.
      if (at === 3) expect(await keys.rotate(other)).toMatchObject({ kind: "rotated" });
      return plain(work);
    };
    const slow = createKeyStore(collectionsOf(connection.db), slowly, (write) => write());
    expect(await slow.rotate(order)).toEqual({ kind: "changed" });
    expect(at).toBeGreaterThan(3);
  });

  test("a sweep that is cut off at any write is finished by the next one", async () => {
    // What other tests have left pending.
    await keys.settlePending({ ...sweep, limit: 99 });
    for (const end of ["revoked", "expiring"] as const) {
      for (const when of ["before", "after"] as const) {
        for (const isDone of [false, true]) {
          for (const from of isDone ? [1, 2, 3] : [1, 2, 3, 4]) {
            teamId = `team${teams++}`;
            const order = await rotation(end);
            const cutOff = endWrite[end] + (isDone ? 1 : 0);
            fails = { from: cutOff, until: Number.POSITIVE_INFINITY, when: "before" };
            await keys.rotate(order).catch(() => undefined);
            calls = 0;
            fails = { from, until: from + 1, when };
            const first = await keys.settlePending(sweep);
            expect(first).toMatchObject({ failed: { reason: "UNAVAILABLE" } });
            fails = undefined;
            const second = await keys.settlePending(sweep);
            // What has ended must be announced, also where nothing is left for the second sweep.
            const told = [...first.predecessors, ...second.predecessors].map(({ id }) => id);
            expect(new Set(told)).toEqual(new Set(isDone ? [order.keyId] : []));
            expect(second.failed).toBeUndefined();
            const ended = { revokeTimeMs: 200, revokedBy: "Keyrun", pendingSinceMs: null };
            expect(await keys.find(order.successor.id)).toMatchObject(isDone ? order.successor : ended);
            const whole = { replacedByKeyId: null, expireTimeMs: null, revokeTimeMs: null };
            const { kind, ...ordered } = order.end;
            expect(await keys.find(order.keyId)).toMatchObject(
              isDone ? { replacedByKeyId: order.successor.id, ...ordered, version: 2 } : whole,
            );
          }
        }
      }
    }
  });
});
