import { describe, expect, test } from "vitest";
import type { KeyRecord, RotateKeyOrder } from "#src/keys/key-store.ts";
import { keyRecordOf } from "../harness/store-records.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

/** The promises of `KeyStore` about keys that replace others. */
export function keyRotationContract(name: string, open: OpenStores): void {
  describe(`rotations in KeyStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const keys = () => stores().keys;
    const roomy = { activeMax: 1_000 };
    const revoke = { kind: "revoke", revokeTimeMs: 5, revokedBy: "a service" } as const;
    const expire = (expireTimeMs: number) => ({ kind: "expire", expireTimeMs }) as const;

    async function inserted(teamId: string, facts: Partial<KeyRecord> = {}) {
      const key = keyRecordOf({ id: `${teamId}k`, teamId, ...facts });
      expect(await keys().insert(key, roomy)).toEqual({ kind: "inserted" });
      return key;
    }

    function orderOf(
      { id: keyId, teamId, version, firstKeyId }: KeyRecord,
      id: string,
      end: RotateKeyOrder["end"] = revoke,
      facts: Partial<KeyRecord> = {},
    ): RotateKeyOrder {
      const chain = { replacesKeyId: keyId, firstKeyId: firstKeyId ?? keyId, version: 2 };
      const successor = keyRecordOf({ id, teamId, ...chain, ...facts });
      return { teamId, keyId, version, successor, end };
    }

    test("each names the other, and every later read sees both as the outcome has them", async () => {
      const teamId = newPrefix();
      for (const [n, end] of [revoke, expire(70)].entries()) {
        const old = await inserted(teamId, { id: `${teamId}old${n}`, expireTimeMs: 90 });
        const order = orderOf(old, `${teamId}new${n}`, end, { label: "x", appIds: ["echo"] });
        const replaced = {
          ...old,
          ...(n === 0 ? { revokeTimeMs: 5, revokedBy: "a service" } : { expireTimeMs: 70 }),
          ...{ replacedByKeyId: order.successor.id, version: 2 },
        };
        const { successor } = order;
        expect(await keys().rotate(order)).toEqual({ kind: "rotated", replaced, successor });
        expect(await keys().find(old.id)).toEqual(replaced);
        expect(await keys().find(successor.id)).toEqual(successor);
      }
    });

    test("works at the limit, and the pair counts as one until both have ended", async () => {
      const teamId = newPrefix();
      const limits = { activeMax: 1 };
      const old = keyRecordOf({ id: `${teamId}a`, teamId });
      await keys().insert(old, limits);
      const outcome = await keys().rotate(orderOf(old, `${teamId}b`, expire(70)));
      expect(outcome.kind).toBe("rotated");
      const insert = (id: string) => keys().insert(keyRecordOf({ id: teamId + id, teamId }), limits);
      expect(await keys().countActive(teamId)).toBe(1);
      expect(await insert("c")).toEqual({ kind: "limit_reached" });
      expect(await keys().markExpired({ nowMs: 70, limit: 9, teamId })).toHaveLength(1);
      expect(await keys().countActive(teamId)).toBe(1);
      expect(await insert("c")).toEqual({ kind: "limit_reached" });
      const successor = await keys().find(`${teamId}b`);
      expect((await keys().rotate(orderOf(successor!, `${teamId}d`))).kind).toBe("rotated");
      expect(await keys().countActive(teamId)).toBe(1);
      await keys().revoke({ teamId, keyId: `${teamId}d`, revokeTimeMs: 9, revokedBy: "ada" });
      expect(await keys().countActive(teamId)).toBe(0);
      expect(await insert("c")).toEqual({ kind: "inserted" });
      expect(await insert("e")).toEqual({ kind: "limit_reached" });
    });

    test("a key that was changed, has ended or is replaced stays as it is, and there is no successor", async () => {
      const teamId = newPrefix();
      const key = await inserted(teamId);
      const stale = { ...orderOf(key, `${teamId}n`), version: 7 };
      expect(await keys().rotate(stale)).toEqual({ kind: "changed" });
      expect(await keys().rotate({ ...orderOf(key, `${teamId}n`), teamId: newPrefix() })).toEqual({
        kind: "changed",
      });
      expect(await keys().find(key.id)).toEqual(key);
      await keys().rotate(orderOf(key, `${teamId}b`, expire(70)));
      for (let version = 1; version < 4; version++) {
        expect(await keys().rotate({ ...orderOf(key, `${teamId}n`), version })).toEqual({ kind: "changed" });
      }
      const revoked = await keys().revoke({ teamId, keyId: key.id, revokeTimeMs: 9, revokedBy: "ada" });
      expect(await keys().rotate(orderOf(revoked!, `${teamId}n`))).toEqual({ kind: "changed" });
      expect(await keys().find(`${teamId}n`)).toBeUndefined();
      expect(await keys().find(key.id)).toEqual(revoked);
    });

    test("a used request id names its key, and nothing is written", async () => {
      const teamId = newPrefix();
      const requestId = "11111111-2222-4333-8444-555555555555";
      const key = await inserted(teamId, { requestId });
      const order = orderOf(key, `${teamId}n`, revoke, { requestId });
      expect(await keys().rotate(order)).toEqual({ kind: "request_id_used", keyId: key.id });
      expect(await keys().find(key.id)).toEqual(key);
      expect(await keys().find(`${teamId}n`)).toBeUndefined();
    });

    test("a successor is replaced only without an overlap while a key before it is active", async () => {
      const teamId = newPrefix();
      const key = await inserted(teamId);
      await keys().rotate(orderOf(key, `${teamId}b`, expire(70)));
      const second = (await keys().find(`${teamId}b`))!;
      expect(await keys().rotate(orderOf(second, `${teamId}c`, expire(90)))).toEqual({
        kind: "predecessor_active",
      });
      expect((await keys().rotate(orderOf(second, `${teamId}c`))).kind).toBe("rotated");
      const third = (await keys().find(`${teamId}c`))!;
      expect((await keys().rotate(orderOf(third, `${teamId}d`, expire(90)))).kind).toBe("predecessor_active");
      expect(await keys().countActive(teamId)).toBe(1);
      await keys().markExpired({ nowMs: 70, limit: 9, teamId });
      expect((await keys().rotate(orderOf(third, `${teamId}d`, expire(90)))).kind).toBe("rotated");
    });

    test("exactly one of several concurrent rotations of a key is done, and no other leaves a key", async () => {
      const teamId = newPrefix();
      for (let round = 0; round < 4; round++) {
        const key = await inserted(teamId, { id: `${teamId}k${round}` });
        const outcomes = await Promise.all(
          ["a", "b", "c", "d", "e"].map((n) =>
            keys().rotate(orderOf(key, `${teamId}${round}${n}`, round % 2 === 0 ? revoke : expire(70))),
          ),
        );
        const done = outcomes.filter(({ kind }) => kind === "rotated");
        expect(done).toHaveLength(1);
        expect(await keys().countActive(teamId)).toBe(round + 1);
        const named = (await keys().find(key.id))?.replacedByKeyId;
        const chain = (await keys().list({ teamId, limit: 50, includeRevoked: true })).filter(
          ({ replacesKeyId }) => replacesKeyId === key.id,
        );
        expect(chain.map(({ id }) => id)).toEqual([named]);
      }
    });

    test("a rotation and a revocation at once leave the key ended, and a successor only if it was rotated", async () => {
      const teamId = newPrefix();
      for (let round = 0; round < 6; round++) {
        const key = await inserted(teamId, { id: `${teamId}k${round}` });
        const id = `${teamId}n${round}`;
        const [outcome] = await Promise.all([
          keys().rotate(orderOf(key, id, expire(70))),
          keys().revoke({ teamId, keyId: key.id, revokeTimeMs: 9, revokedBy: "ada" }),
        ]);
        const old = await keys().find(key.id);
        expect(old).toMatchObject({ revokeTimeMs: 9, revokedBy: "ada" });
        expect(old?.replacedByKeyId).toBe(outcome.kind === "rotated" ? id : null);
        expect((await keys().find(id))?.pendingSinceMs).toBe(outcome.kind === "rotated" ? null : undefined);
      }
    });

    test("a key that is pending is not listed, and is revoked once that has lasted too long", async () => {
      const teamId = newPrefix();
      const early = await inserted(teamId, { id: `${teamId}a`, pendingSinceMs: 10 });
      const late = await inserted(teamId, { id: `${teamId}b`, pendingSinceMs: 11 });
      const list = async () =>
        (await keys().list({ teamId, limit: 9, includeRevoked: true })).map(({ id }) => id);
      expect(await list()).toEqual([]);
      const order = { sinceMs: 10, revokeTimeMs: 20, revokedBy: "Keyrun" };
      const none = { completed: [], revoked: [], predecessors: [] };
      expect(await keys().settlePending({ ...order, limit: 0 })).toEqual(none);
      const facts = { pendingSinceMs: null, revokeTimeMs: 20, revokedBy: "Keyrun", version: 2 };
      const begun: unknown[] = [];
      const before = async (key: { readonly teamId: string; readonly keyId: string }) => {
        begun.push([key, (await keys().find(key.keyId))?.revokeTimeMs]);
      };
      expect(await keys().settlePending({ ...order, limit: 9, before })).toEqual({
        ...none,
        revoked: [{ ...early, ...facts }],
      });
      expect(begun).toEqual([[{ teamId, keyId: early.id }, null]]);
      expect(await keys().settlePending({ ...order, limit: 9 })).toEqual(none);
      expect(await keys().find(late.id)).toEqual(late);
      expect(await list()).toEqual([early.id]);
    });

    test("a rotation whose old key names the pending key is completed, and any other is taken back", async () => {
      const teamId = newPrefix();
      const chain = { replacesKeyId: `${teamId}a`, firstKeyId: `${teamId}a`, pendingSinceMs: 10 };
      const ends = { replacedByKeyId: `${teamId}b`, expireTimeMs: 90 };
      const old = await inserted(teamId, { id: `${teamId}a`, ...ends });
      const pending = await inserted(teamId, { id: `${teamId}b`, ...chain });
      const gone = { revokeTimeMs: 7, revokedBy: "ada", replacedByKeyId: `${teamId}f` };
      const revoked = await inserted(teamId, { id: `${teamId}e`, ...gone });
      const late = { replacesKeyId: revoked.id, firstKeyId: revoked.id, pendingSinceMs: 10 };
      const successor = await inserted(teamId, { id: `${teamId}f`, ...late });
      // Of rotations that lost: the old key names another, or none.
      await inserted(teamId, { id: `${teamId}c`, ...chain });
      const free = await inserted(teamId, { id: `${teamId}g` });
      const requestId = "11111111-2222-4333-8444-555555555555";
      const lost = { replacesKeyId: free.id, firstKeyId: free.id, requestId, pendingSinceMs: 10 };
      await inserted(teamId, { id: `${teamId}d`, ...lost });
      const order = { sinceMs: 10, revokeTimeMs: 20, revokedBy: "Keyrun", limit: 9 };
      const begun: string[] = [];
      const before = async ({ keyId }: { keyId: string }) => void begun.push(keyId);
      const settled = await keys().settlePending({ ...order, before });
      const byId = (some: readonly KeyRecord[]) => some.toSorted((a, b) => (a.id < b.id ? -1 : 1));
      const usable = { pendingSinceMs: null, version: 2 };
      expect(byId(settled.completed)).toEqual([
        { ...pending, ...usable },
        { ...successor, ...usable },
      ]);
      expect(byId(settled.predecessors)).toEqual([old, revoked]);
      expect(byId(settled.revoked).map(({ id }) => id)).toEqual([`${teamId}c`, `${teamId}d`]);
      expect(begun.sort()).toEqual([`${teamId}c`, `${teamId}d`]);
      expect(await keys().find(pending.id)).toEqual({ ...pending, ...usable });
      expect(await keys().find(old.id)).toEqual(old);
      // What was taken back can be asked for again, with the same request id.
      const now = (await keys().find(free.id))!;
      expect(now).toEqual({ ...free, version: now.version });
      const again = orderOf(now, `${teamId}h`, revoke, { requestId });
      expect((await keys().rotate(again)).kind).toBe("rotated");
    });

    const endings = {
      not: {},
      expired: { expiredTimeMs: 7 },
      revoked: { revokeTimeMs: 7, revokedBy: "ada" },
    };
    test("a pending key that was revoked keeps that revocation, and frees its predecessor; an ended one stays", async () => {
      const teamId = newPrefix();
      const ends: readonly (keyof typeof endings)[] = ["not", "expired", "revoked"];
      for (const [n, end] of ends.entries()) {
        const [a, b] = [`${teamId}a${n}`, `${teamId}b${n}`];
        const expiry = end === "expired" ? { expireTimeMs: 7 } : {};
        const old = await inserted(teamId, { id: a, replacedByKeyId: b, ...expiry });
        const chain = { replacesKeyId: a, firstKeyId: a, pendingSinceMs: 10 };
        const pending = await inserted(teamId, { id: b, ...chain });
        if (end === "expired") await keys().markExpired({ nowMs: 7, limit: 9, teamId });
        if (end === "revoked") await keys().revoke({ teamId, keyId: a, ...endings.revoked });
        await keys().revoke({ teamId, keyId: b, revokeTimeMs: 8, revokedBy: "lin" });
        const order = { sinceMs: 10, revokeTimeMs: 20, revokedBy: "Keyrun", limit: 9 };
        const { revoked, predecessors } = await keys().settlePending(order);
        const facts = { pendingSinceMs: null, revokeTimeMs: 8, revokedBy: "lin", version: 2 };
        expect(revoked).toEqual([{ ...pending, ...facts }]);
        expect(predecessors).toHaveLength(n === 0 ? 1 : 0);
        expect(await keys().find(a)).toEqual({
          ...old,
          ...endings[end],
          replacedByKeyId: n === 0 ? null : b,
          version: 2,
        });
      }
    });
  });
}
