import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import type { KeyRecord } from "#src/keys/key-store.ts";
import { keyRecordOf } from "../harness/store-records.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

const roomy = { activeMax: 1_000 };

export function keyStoreContract(name: string, open: OpenStores): void {
  describe(`KeyStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const keys = () => stores().keys;

    async function insertAll(records: readonly KeyRecord[]) {
      for (const record of records) {
        expect(await keys().insert(record, roomy)).toEqual({ kind: "inserted" });
      }
    }

    describe("insert and find", () => {
      test("a key that was inserted is found with every fact it was given", async () => {
        const teamId = newPrefix();
        const key = keyRecordOf({
          id: `${teamId}k`,
          teamId,
          label: "Zoë’s 👩‍💻 $set.a 'key' --",
          requestId: "8d5f3b1e-6c0a-4b7e-9d2f-1a3c5e7f9b0d",
          secretVersion: "deadbeef",
          createdBy: "a service",
        });
        await insertAll([key]);
        expect(await keys().find(key.id)).toEqual(key);
      });

      test("what a key is restricted to is found, listed and kept by a revocation as it was inserted", async () => {
        const teamId = newPrefix();
        const restricted = [
          { appIds: ["words", "echo", "a-b-1"], requestsPerMinute: 3_000 },
          { appIds: ["echo"], requestsPerMinute: null },
          { appIds: [], requestsPerMinute: 1 },
          { quota: { requests: 1_000_000_000_000, period: "month" } as const },
        ].map((facts, n) => keyRecordOf({ id: `${teamId}k${n}`, teamId, createTimeMs: 100 - n, ...facts }));
        await insertAll(restricted);
        for (const key of restricted) expect(await keys().find(key.id)).toEqual(key);
        expect(await keys().list({ teamId, limit: 9, includeRevoked: false })).toEqual(restricted);
        const { id: keyId, appIds, requestsPerMinute } = restricted[0]!;
        const revoked = await keys().revoke({ teamId, keyId, revokeTimeMs: 5, revokedBy: "a service" });
        expect(revoked).toMatchObject({ appIds, requestsPerMinute });
      });

      test("find returns undefined for an unknown key, also where another case or a pattern would match", async () => {
        const teamId = newPrefix();
        await insertAll([keyRecordOf({ id: `${teamId}abc`, teamId })]);
        for (const other of ["", `${teamId}ab`, `${teamId}ABC`, `${teamId}%`, `${teamId}.*`, "$ne"]) {
          expect(await keys().find(other)).toBeUndefined();
        }
      });

      test("a second key of the same id is refused and leaves the first as it was", async () => {
        const teamId = newPrefix();
        const first = keyRecordOf({ id: `${teamId}k`, teamId });
        await insertAll([first]);
        await expect(keys().insert({ ...first, label: "second" }, roomy)).rejects.toThrow();
        expect(await keys().find(first.id)).toEqual(first);
      });

      test("a key that does not fit the schema is refused and not written", async () => {
        const teamId = newPrefix();
        const id = `${teamId}k`;
        for (const wrong of [
          { createTimeMs: 1.5 },
          { digest: "" },
          { version: 0 },
          { plan: "free" },
          { requestsPerMinute: 0 },
          { quota: { requests: 0, period: "day" } },
        ]) {
          const key = { ...keyRecordOf({ id, teamId }), ...wrong } as KeyRecord;
          await expect(keys().insert(key, roomy)).rejects.toMatchObject({ reason: "INTERNAL" });
          expect(await keys().find(id)).toBeUndefined();
        }
      });
    });

    describe("request ids", () => {
      const requestId = "11111111-2222-4333-8444-555555555555";

      test("a used request id returns its key's id and writes nothing", async () => {
        const teamId = newPrefix();
        await insertAll([keyRecordOf({ id: `${teamId}k1`, teamId, requestId })]);
        const again = keyRecordOf({ id: `${teamId}k2`, teamId, requestId });
        const outcome = { kind: "request_id_used", keyId: `${teamId}k1` };
        expect(await keys().insert(again, roomy)).toEqual(outcome);
        expect(await keys().find(again.id)).toBeUndefined();
      });

      test("a request id stays used after its key was revoked", async () => {
        const teamId = newPrefix();
        await insertAll([keyRecordOf({ id: `${teamId}k1`, teamId, requestId })]);
        await keys().revoke({ teamId, keyId: `${teamId}k1`, revokeTimeMs: 5, revokedBy: "a service" });
        expect(await keys().insert(keyRecordOf({ id: `${teamId}k2`, teamId, requestId }), roomy)).toEqual({
          kind: "request_id_used",
          keyId: `${teamId}k1`,
        });
      });

      test("two teams may use the same request id, and keys without one don't collide", async () => {
        const [a, b] = [newPrefix(), newPrefix()];
        await insertAll([
          keyRecordOf({ id: `${a}k1`, teamId: a, requestId }),
          keyRecordOf({ id: `${b}k1`, teamId: b, requestId }),
          keyRecordOf({ id: `${a}k2`, teamId: a }),
          keyRecordOf({ id: `${a}k3`, teamId: a }),
        ]);
      });

      test("the outcome is the used request id where the limit is reached too", async () => {
        const teamId = newPrefix();
        await insertAll([keyRecordOf({ id: `${teamId}k1`, teamId, requestId })]);
        const again = keyRecordOf({ id: `${teamId}k2`, teamId, requestId });
        expect(await keys().insert(again, { activeMax: 1 })).toMatchObject({ kind: "request_id_used" });
      });

      test("exactly one of several concurrent inserts with one request id is written, and the others name it", async () => {
        const teamId = newPrefix();
        const ids = Array.from({ length: 8 }, (_, n) => `${teamId}k${n}`);
        const outcomes = await Promise.all(
          ids.map((id) => keys().insert(keyRecordOf({ id, teamId, requestId }), roomy)),
        );
        const written = await keys().list({ teamId, limit: 100, includeRevoked: true });
        expect(written).toHaveLength(1);
        const others = outcomes.filter((outcome) => outcome.kind !== "inserted");
        expect(others).toEqual(ids.slice(1).map(() => ({ kind: "request_id_used", keyId: written[0]?.id })));
      });
    });

    describe("the limit of active keys", () => {
      test("the insert past the limit is refused and not written; a revoked key makes room", async () => {
        const teamId = newPrefix();
        const insert = (id: string) => keys().insert(keyRecordOf({ id, teamId }), { activeMax: 2 });
        expect(await insert(`${teamId}k1`)).toEqual({ kind: "inserted" });
        expect(await insert(`${teamId}k2`)).toEqual({ kind: "inserted" });
        expect(await insert(`${teamId}k3`)).toEqual({ kind: "limit_reached" });
        expect(await keys().find(`${teamId}k3`)).toBeUndefined();
        await keys().revoke({ teamId, keyId: `${teamId}k1`, revokeTimeMs: 1, revokedBy: "a service" });
        expect(await insert(`${teamId}k4`)).toEqual({ kind: "inserted" });
        expect(await insert(`${teamId}k5`)).toEqual({ kind: "limit_reached" });
      });

      test("one team's keys don't count for another", async () => {
        const [a, b] = [newPrefix(), newPrefix()];
        for (const teamId of [a, b]) {
          const outcome = await keys().insert(keyRecordOf({ id: `${teamId}k`, teamId }), { activeMax: 1 });
          expect(outcome).toEqual({ kind: "inserted" });
        }
      });

      test("a limit that was lowered below the number of active keys lets no key in until enough are revoked", async () => {
        const teamId = newPrefix();
        const ids = ["k1", "k2", "k3", "k4"].map((id) => teamId + id);
        await insertAll(ids.map((id) => keyRecordOf({ id, teamId })));
        const insert = (id: string) => keys().insert(keyRecordOf({ id, teamId }), { activeMax: 2 });
        for (const keyId of ids.slice(0, 3)) {
          expect(await insert(`${teamId}n`)).toEqual({ kind: "limit_reached" });
          await keys().revoke({ teamId, keyId, revokeTimeMs: 1, revokedBy: "a service" });
        }
        expect(await insert(`${teamId}n1`)).toEqual({ kind: "inserted" });
        expect(await insert(`${teamId}n2`)).toEqual({ kind: "limit_reached" });
      });

      test("of 60 concurrent inserts, exactly as many are written as the limit allows", async () => {
        const teamId = newPrefix();
        const outcomes = await Promise.all(
          Array.from({ length: 60 }, (_, n) =>
            keys().insert(keyRecordOf({ id: `${teamId}k${n}`, teamId }), { activeMax: 25 }),
          ),
        );
        expect(outcomes.filter(({ kind }) => kind === "inserted")).toHaveLength(25);
        expect(outcomes.filter(({ kind }) => kind === "limit_reached")).toHaveLength(35);
        expect(await keys().countActive(teamId)).toBe(25);
      });
    });

    describe("list and count", () => {
      test("list returns keys newest first, by id descending within one millisecond, and revoked keys only when asked", async () => {
        const teamId = newPrefix();
        const [old, low, high, revoked] = [
          keyRecordOf({ id: `${teamId}z`, teamId, createTimeMs: 1_000 }),
          keyRecordOf({ id: `${teamId}a`, teamId, createTimeMs: 2_000 }),
          keyRecordOf({ id: `${teamId}b`, teamId, createTimeMs: 2_000 }),
          keyRecordOf({ id: `${teamId}c`, teamId, createTimeMs: 1_500 }),
        ];
        await insertAll([low, old, high, revoked]);
        await keys().revoke({ teamId, keyId: revoked.id, revokeTimeMs: 9, revokedBy: "a service" });
        const ids = async (includeRevoked: boolean) =>
          (await keys().list({ teamId, limit: 10, includeRevoked })).map(({ id }) => id);
        expect(await ids(false)).toEqual([high.id, low.id, old.id]);
        expect(await ids(true)).toEqual([high.id, low.id, revoked.id, old.id]);
        expect(await keys().countActive(teamId)).toBe(3);
      });

      test("pages of any size hold each key once and in order, whatever the creation times", async () => {
        const time = fc.integer({ min: 1, max: 4 });
        const times = fc.array(time, { minLength: 1, maxLength: 9 });
        await fc.assert(
          fc.asyncProperty(
            times,
            fc.integer({ min: 1, max: 4 }),
            fc.boolean(),
            async (all, limit, revoked) => {
              const teamId = newPrefix();
              await insertAll(
                all.map((createTimeMs, n) => keyRecordOf({ id: `${teamId}${n}`, teamId, createTimeMs })),
              );
              if (revoked) {
                await keys().revoke({ teamId, keyId: `${teamId}0`, revokeTimeMs: 9, revokedBy: "a service" });
              }
              const query = { teamId, includeRevoked: !revoked };
              const whole = await keys().list({ ...query, limit: 100 });
              expect(whole).toHaveLength(revoked ? all.length - 1 : all.length);
              const paged: KeyRecord[] = [];
              let page = await keys().list({ ...query, limit });
              while (page.length > 0) {
                expect(page.length).toBeLessThanOrEqual(limit);
                paged.push(...page);
                page = await keys().list({ ...query, limit, after: page.at(-1)! });
              }
              expect(paged).toEqual(whole);
            },
          ),
          { numRuns: 8, seed: 4 },
        );
      });

      test("a limit of 0 lists nothing, and an unknown team has no keys", async () => {
        const teamId = newPrefix();
        await insertAll([keyRecordOf({ id: `${teamId}k`, teamId })]);
        expect(await keys().list({ teamId, limit: 0, includeRevoked: true })).toEqual([]);
        expect(await keys().list({ teamId: newPrefix(), limit: 10, includeRevoked: true })).toEqual([]);
        expect(await keys().countActive(newPrefix())).toBe(0);
      });
    });

    describe("revoke", () => {
      test("revoke returns the key with time, actor and version 2, and so does every later read", async () => {
        const teamId = newPrefix();
        const key = keyRecordOf({ id: `${teamId}k`, teamId });
        await insertAll([key]);
        const revoked = { ...key, revokeTimeMs: 77, revokedBy: "bob@example.com", version: 2 };
        const answer = await keys().revoke({
          teamId,
          keyId: key.id,
          revokeTimeMs: 77,
          revokedBy: "bob@example.com",
        });
        expect(answer).toEqual(revoked);
        expect(await keys().find(key.id)).toEqual(revoked);
        expect(await keys().list({ teamId, limit: 1, includeRevoked: true })).toEqual([revoked]);
      });

      test("a key that was revoked before keeps its first time and actor", async () => {
        const teamId = newPrefix();
        await insertAll([keyRecordOf({ id: `${teamId}k`, teamId })]);
        const revoke = (revokeTimeMs: number, revokedBy: string) =>
          keys().revoke({ teamId, keyId: `${teamId}k`, revokeTimeMs, revokedBy });
        const first = await revoke(5, "ada@example.com");
        expect(await revoke(3, "bob@example.com")).toEqual(first);
        expect(await revoke(9, "bob@example.com")).toEqual(first);
        expect(await keys().find(`${teamId}k`)).toEqual(first);
      });

      test("revoke returns undefined for another team's key and an unknown key, and revokes nothing", async () => {
        const teamId = newPrefix();
        const key = keyRecordOf({ id: `${teamId}k`, teamId });
        await insertAll([key]);
        const by = { revokeTimeMs: 5, revokedBy: "a service" };
        expect(await keys().revoke({ teamId: newPrefix(), keyId: key.id, ...by })).toBeUndefined();
        expect(await keys().revoke({ teamId, keyId: `${teamId}other`, ...by })).toBeUndefined();
        expect(await keys().find(key.id)).toEqual(key);
      });

      test("concurrent revokes of one key all return the same time and actor", async () => {
        const teamId = newPrefix();
        await insertAll([keyRecordOf({ id: `${teamId}k`, teamId })]);
        const answers = await Promise.all(
          [11, 12, 13, 14].map((revokeTimeMs) =>
            keys().revoke({ teamId, keyId: `${teamId}k`, revokeTimeMs, revokedBy: `actor ${revokeTimeMs}` }),
          ),
        );
        const stored = await keys().find(`${teamId}k`);
        expect(stored?.revokedBy).toBe(`actor ${stored?.revokeTimeMs}`);
        expect(answers).toEqual([stored, stored, stored, stored]);
      });
    });

    describe("last use", () => {
      test("a use is recorded, a later one raises it, an earlier one never sets it back", async () => {
        const teamId = newPrefix();
        const id = `${teamId}k`;
        await insertAll([keyRecordOf({ id, teamId })]);
        for (const [timeMs, stored] of [
          [50, 50],
          [70, 70],
          [60, 70],
        ] as const) {
          await keys().recordUses(new Map([[id, timeMs]]));
          expect((await keys().find(id))?.lastUseTimeMs).toBe(stored);
        }
      });

      test("uses of many keys are written at once; an unknown id is ignored and not created", async () => {
        const teamId = newPrefix();
        const ids = Array.from({ length: 15 }, (_, n) => `${teamId}k${n}`);
        await insertAll(ids.map((id) => keyRecordOf({ id, teamId })));
        const uses = new Map(ids.map((id, n) => [id, 1_000 + n]));
        await keys().recordUses(new Map([[`${teamId}unknown`, 1], ...uses]));
        const stored = await keys().list({ teamId, limit: 100, includeRevoked: false });
        expect(new Map(stored.map(({ id, lastUseTimeMs }) => [id, lastUseTimeMs]))).toEqual(uses);
        expect(await keys().find(`${teamId}unknown`)).toBeUndefined();
      });

      test("more uses than fit one message are all written", async () => {
        const teamId = newPrefix();
        const [first, last] = [`${teamId}first`, `${teamId}last`];
        await insertAll([first, last].map((id) => keyRecordOf({ id, teamId })));
        const unknown = Array.from(
          { length: bounds.usesPerMessageMax },
          (_, n) => [`${teamId}${n}`, 1] as const,
        );
        await keys().recordUses(new Map([[first, 5], ...unknown, [last, 6]]));
        expect((await keys().find(first))?.lastUseTimeMs).toBe(5);
        expect((await keys().find(last))?.lastUseTimeMs).toBe(6);
      });

      test("a use changes nothing else of the key, revoked or not, and an empty map is no error", async () => {
        const teamId = newPrefix();
        const id = `${teamId}k`;
        await insertAll([keyRecordOf({ id, teamId })]);
        const revoked = await keys().revoke({ teamId, keyId: id, revokeTimeMs: 5, revokedBy: "a service" });
        await keys().recordUses(new Map([[id, 50]]));
        await keys().recordUses(new Map());
        expect(await keys().find(id)).toEqual({ ...revoked, lastUseTimeMs: 50 });
      });
    });

    test("secretVersions returns each version that a key names once, revoked keys' versions too", async () => {
      const teamId = newPrefix();
      await insertAll(
        ["x", "y", "x"].map((version, n) =>
          keyRecordOf({ id: `${teamId}k${n}`, teamId, secretVersion: `${teamId}${version}` }),
        ),
      );
      await keys().revoke({ teamId, keyId: `${teamId}k1`, revokeTimeMs: 5, revokedBy: "a service" });
      const versions = (await keys().secretVersions()).filter((version) => version.startsWith(teamId));
      expect(versions.sort()).toEqual([`${teamId}x`, `${teamId}y`]);
    });

    test("a deleted key is gone, frees its slot and its request id, and deleting it again is no error", async () => {
      const teamId = newPrefix();
      const requestId = "11111111-2222-4333-8444-555555555555";
      const key = keyRecordOf({ id: `${teamId}k`, teamId, requestId });
      const insert = (id: string) => keys().insert({ ...key, id }, { activeMax: 1 });
      expect(await insert(key.id)).toEqual({ kind: "inserted" });
      await keys().delete(key.id);
      await keys().delete(key.id);
      expect(await keys().find(key.id)).toBeUndefined();
      expect(await insert(`${teamId}k2`)).toEqual({ kind: "inserted" });
    });

    test("deleteAll deletes the team's keys alone, revoked or not, as many as it may, and names them", async () => {
      const [teamId, other] = [newPrefix(), newPrefix()];
      const ids = ["k1", "k2", "k3"].map((id) => teamId + id);
      await insertAll(ids.map((id) => keyRecordOf({ id, teamId })));
      await insertAll([keyRecordOf({ id: `${other}k`, teamId: other })]);
      await keys().revoke({ teamId, keyId: ids[0]!, revokeTimeMs: 5, revokedBy: "a service" });
      expect(await keys().deleteAll(teamId, 0)).toEqual([]);
      const first = await keys().deleteAll(teamId, 2);
      expect(first).toHaveLength(2);
      const second = await keys().deleteAll(teamId, 2);
      expect([...first, ...second].sort()).toEqual(ids);
      expect(await keys().deleteAll(teamId, 2)).toEqual([]);
      expect(await keys().countActive(teamId)).toBe(0);
      expect(await keys().countActive(other)).toBe(1);
    });
  });
}
