import { describe, expect, test } from "vitest";
import type { KeyRecord } from "#src/keys/key-store.ts";
import { keyRecordOf } from "../harness/store-records.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

/** The promises of `KeyStore` about keys that expire and change. */
export function keyLifeContract(name: string, open: OpenStores): void {
  describe(`the life of keys in KeyStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const keys = () => stores().keys;
    const roomy = { activeMax: 1_000 };
    const revocation = { revokeTimeMs: 5, revokedBy: "a service" };

    async function inserted(facts: Partial<KeyRecord> & Pick<KeyRecord, "id" | "teamId">) {
      const key = keyRecordOf(facts);
      expect(await keys().insert(key, roomy)).toEqual({ kind: "inserted" });
      return key;
    }

    describe("markExpired", () => {
      test("marks the keys that are due, to the millisecond, and returns them as every later read does", async () => {
        const teamId = newPrefix();
        const due = await inserted({ id: `${teamId}a`, teamId, expireTimeMs: 1_000 });
        const later = await inserted({ id: `${teamId}b`, teamId, expireTimeMs: 1_001 });
        const never = await inserted({ id: `${teamId}c`, teamId });
        expect(await keys().markExpired({ nowMs: 999, limit: 10, teamId })).toEqual([]);
        const marked = { ...due, expiredTimeMs: 1_000, version: 2 };
        expect(await keys().markExpired({ nowMs: 1_000, limit: 10, teamId })).toEqual([marked]);
        expect(await keys().find(due.id)).toEqual(marked);
        expect(await keys().find(later.id)).toEqual(later);
        expect(await keys().find(never.id)).toEqual(never);
      });

      test("marks a key once, also where several ask at once, and never a revoked one", async () => {
        const teamId = newPrefix();
        const id = `${teamId}a`;
        await inserted({ id, teamId, expireTimeMs: 1_000 });
        const gone = await inserted({ id: `${teamId}b`, teamId, expireTimeMs: 1_000 });
        const revoked = await keys().revoke({ teamId, keyId: gone.id, ...revocation });
        const ask = (nowMs: number) => keys().markExpired({ nowMs, limit: 10, teamId });
        const all = (await Promise.all([ask(2_000), ask(2_001), ask(2_002)])).flat();
        expect(all.map((key) => key.id)).toEqual([id]);
        expect(await ask(9_000)).toEqual([]);
        expect(await keys().find(id)).toEqual(all[0]);
        expect(await keys().find(gone.id)).toEqual(revoked);
      });

      test("marks at most as many as asked, and without a team those of all teams", async () => {
        const [a, b] = [newPrefix(), newPrefix()];
        for (const teamId of [a, b]) await inserted({ id: `${teamId}k`, teamId, expireTimeMs: 7 });
        expect(await keys().markExpired({ nowMs: 7, limit: 0 })).toEqual([]);
        expect(await keys().markExpired({ nowMs: 7, limit: 1 })).toHaveLength(1);
        expect(await keys().markExpired({ nowMs: 7, limit: 100 })).toHaveLength(1);
        for (const teamId of [a, b]) expect((await keys().find(`${teamId}k`))?.expiredTimeMs).toBe(7);
      });

      test("marks only the key that is named, and only of the team that is named with it", async () => {
        const [teamId, other] = [newPrefix(), newPrefix()];
        const named = await inserted({ id: `${teamId}a`, teamId, expireTimeMs: 7 });
        const beside = await inserted({ id: `${teamId}b`, teamId, expireTimeMs: 7 });
        const order = { nowMs: 7, limit: 9, keyId: named.id };
        expect(await keys().markExpired({ ...order, teamId: other })).toEqual([]);
        const marked = { ...named, expiredTimeMs: 7, version: 2 };
        expect(await keys().markExpired({ ...order, teamId })).toEqual([marked]);
        expect(await keys().markExpired({ ...order, teamId })).toEqual([]);
        expect(await keys().find(beside.id)).toEqual(beside);
      });

      test("a marked key makes room among the active ones, and is listed and counted with the revoked", async () => {
        const teamId = newPrefix();
        const [first, second] = [`${teamId}k1`, `${teamId}k2`];
        const insert = (id: string) =>
          keys().insert(keyRecordOf({ id, teamId, expireTimeMs: 1_000 }), { activeMax: 1 });
        expect(await insert(first)).toEqual({ kind: "inserted" });
        expect(await insert(second)).toEqual({ kind: "limit_reached" });
        await keys().markExpired({ nowMs: 1_000, limit: 10, teamId });
        expect(await keys().countActive(teamId)).toBe(0);
        expect(await keys().countRevoked(teamId, 10)).toBe(1);
        expect(await insert(second)).toEqual({ kind: "inserted" });
        const ids = async (includeRevoked: boolean | "only") =>
          (await keys().list({ teamId, limit: 10, includeRevoked })).map(({ id }) => id);
        expect(await ids(false)).toEqual([second]);
        expect(await ids(true)).toEqual([second, first]);
        expect(await ids("only")).toEqual([first]);
        const ended = { teamId, includeRevoked: "only" } as const;
        expect((await keys().placeOf(1, ended))?.id).toBe(first);
        expect(await keys().placeOf(2, ended)).toBeUndefined();
        const query = { ...ended, limit: 9, match: { idStart: teamId } };
        expect((await keys().list(query)).map(({ id }) => id)).toEqual([first]);
        await keys().revoke({ teamId, keyId: second, ...revocation });
        expect(await ids("only")).toEqual([second, first]);
        expect(await keys().countRevoked(teamId, 10)).toBe(2);
        expect(await keys().countRevoked(teamId, 1)).toBe(1);
      });

      test("an expired key can be revoked, once, and counts once", async () => {
        const teamId = newPrefix();
        const key = await inserted({ id: `${teamId}k`, teamId, expireTimeMs: 1_000 });
        await keys().markExpired({ nowMs: 1_000, limit: 10, teamId });
        const revoked = await keys().revoke({ teamId, keyId: key.id, ...revocation });
        expect(revoked).toEqual({ ...key, expiredTimeMs: 1_000, ...revocation, version: 3 });
        expect(await keys().revoke({ teamId, keyId: key.id, revokeTimeMs: 9, revokedBy: "b" })).toEqual(
          revoked,
        );
        expect(await keys().countRevoked(teamId, 10)).toBe(1);
      });
    });

    test("countExpiring counts active keys of all teams within the span, up to its bound", async () => {
      const teamId = newPrefix();
      const base = 4_000_000_000_000;
      for (const [n, after] of [0, 1, 50, 51].entries()) {
        await inserted({ id: `${teamId}k${n}`, teamId, expireTimeMs: base + after });
      }
      const count = (max: number) => keys().countExpiring({ fromMs: base, untilMs: base + 50, max });
      expect(await count(10)).toBe(2);
      expect(await count(1)).toBe(1);
      await keys().revoke({ teamId, keyId: `${teamId}k1`, ...revocation });
      expect(await count(10)).toBe(1);
    });

    describe("update", () => {
      test("changes what it names and nothing else, and returns the key as every later read does", async () => {
        const teamId = newPrefix();
        const key = await inserted({ id: `${teamId}k`, teamId, label: "old" });
        const order = { teamId, keyId: key.id };
        const labelled = await keys().update({ ...order, version: 1, change: { label: "Neu Ä" } });
        expect(labelled).toEqual({ ...key, label: "Neu Ä", version: 2 });
        const ending = await keys().update({ ...order, version: 2, change: { expireTimeMs: 50 } });
        expect(ending).toEqual({ ...key, label: "Neu Ä", expireTimeMs: 50, version: 3 });
        expect(await keys().find(key.id)).toEqual(ending);
        const match = { labelPart: "neu ä" };
        expect(await keys().list({ teamId, limit: 5, includeRevoked: false, match })).toEqual([ending]);
        const gone = { teamId, limit: 5, includeRevoked: true, match: { labelPart: "old" } };
        expect(await keys().list(gone)).toEqual([]);
      });

      test("a label is taken away by an empty one", async () => {
        const teamId = newPrefix();
        const key = await inserted({ id: `${teamId}k`, teamId, label: "old" });
        const change = { label: "" };
        expect(await keys().update({ teamId, keyId: key.id, version: 1, change })).toMatchObject({
          label: "",
        });
      });

      test("with another version, another team or an unknown key returns undefined and changes nothing", async () => {
        const teamId = newPrefix();
        const key = await inserted({ id: `${teamId}k`, teamId });
        const change = { label: "new" };
        for (const wrong of [{ version: 2 }, { teamId: newPrefix() }, { keyId: `${teamId}x` }]) {
          const order = { teamId, keyId: key.id, version: 1, change, ...wrong };
          expect(await keys().update(order)).toBeUndefined();
        }
        expect(await keys().find(key.id)).toEqual(key);
      });

      test("exactly one of several concurrent updates of one version is written", async () => {
        const teamId = newPrefix();
        const key = await inserted({ id: `${teamId}k`, teamId });
        const labels = ["a", "b", "c", "d"];
        const answers = await Promise.all(
          labels.map((label) => keys().update({ teamId, keyId: key.id, version: 1, change: { label } })),
        );
        const written = answers.filter((answer) => answer !== undefined);
        expect(written).toEqual([await keys().find(key.id)]);
      });
    });

    test("revoke raises the version by one, whatever it was", async () => {
      const teamId = newPrefix();
      const key = await inserted({ id: `${teamId}k`, teamId, version: 7 });
      const revoked = await keys().revoke({ teamId, keyId: key.id, ...revocation });
      expect(revoked).toEqual({ ...key, ...revocation, version: 8 });
    });
  });
}
