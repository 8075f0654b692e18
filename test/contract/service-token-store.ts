import { describe, expect, test } from "vitest";
import type { ServiceTokenRecord } from "#src/service-tokens/service-token-store.ts";
import { serviceTokenRecordOf } from "../harness/store-records.ts";
import type { OpenStores } from "./opened-stores.ts";

/** The bound and the list are about all tokens, so each test has a store of its own. */
export function serviceTokenStoreContract(name: string, open: OpenStores): void {
  describe(`ServiceTokenStore on ${name}`, () => {
    const limits = { acceptedMax: 3 };
    const at = 1_700_000_000_000;

    async function withTokens(...tokens: ServiceTokenRecord[]) {
      const { serviceTokens, close } = await open();
      for (const token of tokens) {
        expect(await serviceTokens.insert(token, { acceptedMax: 100 })).toEqual({ kind: "inserted" });
      }
      return { store: serviceTokens, close };
    }

    test("a token that was added is found whole by its id, and an unknown id is not", async () => {
      const token = serviceTokenRecordOf({ id: "a", role: "manage", teamIds: ["acme", "demo"] });
      const { store, close } = await withTokens(token);
      expect(await store.find("a")).toEqual(token);
      expect(await store.find("b")).toBeUndefined();
      await close();
    });

    test("no two accepted tokens have one name, and a revoked one gives its name and its place back", async () => {
      const { store, close } = await withTokens();
      for (const id of ["a", "b", "c"]) await store.insert(serviceTokenRecordOf({ id, name: id }), limits);
      const next = serviceTokenRecordOf({ id: "d", name: "a" });
      expect(await store.insert(next, limits)).toEqual({ kind: "name_used" });
      const other = serviceTokenRecordOf({ id: "d", name: "d" });
      expect(await store.insert(other, limits)).toEqual({ kind: "limit_reached" });
      expect(await store.find("d")).toBeUndefined();
      await store.revoke({ tokenId: "a", revokeTimeMs: at, revokedBy: "ada@example.com" });
      expect(await store.insert(next, limits)).toEqual({ kind: "inserted" });
      expect((await store.find("a"))?.name).toBe("a");
      await close();
    });

    test("of many inserts at once, no name comes twice and no more than the bound are added", async () => {
      const { store, close } = await withTokens();
      const names = Array.from({ length: 12 }, (_, n) => `name${n % 6}`);
      const outcomes = await Promise.all(
        names.map((each, n) => store.insert(serviceTokenRecordOf({ id: `t${n}`, name: each }), limits)),
      );
      const listed = await store.list({ limit: 100, includeRevoked: true });
      expect(outcomes.filter(({ kind }) => kind === "inserted")).toHaveLength(3);
      expect(listed).toHaveLength(3);
      expect(new Set(listed.map((token) => token.name)).size).toBe(3);
      await close();
    });

    test("the secrets that are needed are those of accepted tokens, so a revoked one holds none back", async () => {
      const { store, close } = await withTokens(
        serviceTokenRecordOf({ id: "a", name: "a", secretVersion: "00000001" }),
        serviceTokenRecordOf({ id: "b", name: "b", secretVersion: "00000002" }),
        serviceTokenRecordOf({ id: "c", name: "c", secretVersion: "00000002" }),
      );
      expect((await store.secretVersions()).sort()).toEqual(["00000001", "00000002"]);
      await store.revoke({ tokenId: "a", revokeTimeMs: at, revokedBy: "bob" });
      expect(await store.secretVersions()).toEqual(["00000002"]);
      await close();
    });

    test("revoking is for ever: a second revocation keeps the first time and actor, and the version", async () => {
      const { store, close } = await withTokens(serviceTokenRecordOf({ id: "a" }));
      const first = await store.revoke({ tokenId: "a", revokeTimeMs: at, revokedBy: "ada@example.com" });
      expect(first).toMatchObject({ revokeTimeMs: at, revokedBy: "ada@example.com", version: 2 });
      expect(await store.revoke({ tokenId: "a", revokeTimeMs: at + 5, revokedBy: "bob" })).toEqual(first);
      expect(await store.find("a")).toEqual(first);
      const unknown = { tokenId: "b", revokeTimeMs: at, revokedBy: "bob" };
      expect(await store.revoke(unknown)).toBeUndefined();
      await close();
    });

    test("a list is newest first, by id within a millisecond, page after page, and revoked ones only if asked", async () => {
      const tokens = [
        serviceTokenRecordOf({ id: "a", name: "a", createTimeMs: at }),
        serviceTokenRecordOf({ id: "b", name: "b", createTimeMs: at }),
        serviceTokenRecordOf({ id: "c", name: "c", createTimeMs: at + 1 }),
      ];
      const { store, close } = await withTokens(...tokens);
      const ids = async (query: Parameters<typeof store.list>[0]) =>
        (await store.list(query)).map(({ id }) => id);
      expect(await ids({ limit: 2, includeRevoked: false })).toEqual(["c", "b"]);
      const after = { createTimeMs: at, id: "b" };
      expect(await ids({ limit: 2, after, includeRevoked: false })).toEqual(["a"]);
      expect(await ids({ limit: 0, includeRevoked: true })).toEqual([]);
      await store.revoke({ tokenId: "b", revokeTimeMs: at, revokedBy: "bob" });
      expect(await ids({ limit: 5, includeRevoked: false })).toEqual(["c", "a"]);
      expect(await ids({ limit: 5, includeRevoked: true })).toEqual(["c", "b", "a"]);
      await close();
    });

    test("a team leaves every accepted token that names it, and no other changes", async () => {
      const both = serviceTokenRecordOf({ id: "a", name: "a", role: "manage", teamIds: ["acme", "demo"] });
      const one = serviceTokenRecordOf({ id: "b", name: "b", role: "manage", teamIds: ["demo"] });
      const none = serviceTokenRecordOf({ id: "c", name: "c", role: "manage", teamIds: ["demo-2"] });
      const revoked = serviceTokenRecordOf({ id: "d", name: "d", role: "manage", teamIds: ["demo"] });
      const { store, close } = await withTokens(both, one, none, revoked);
      const last = await store.revoke({ tokenId: "d", revokeTimeMs: at, revokedBy: "bob" });
      const left = await store.leaveTeam("demo");
      const expected = [
        { ...both, teamIds: ["acme"], version: 2 },
        { ...one, teamIds: [], version: 2 },
      ];
      expect(left.toSorted((x, y) => (x.id < y.id ? -1 : 1))).toEqual(expected);
      expect(await store.leaveTeam("demo")).toEqual([]);
      expect(await store.find("a")).toEqual(expected[0]);
      expect(await store.find("c")).toEqual(none);
      expect(await store.find("d")).toEqual(last);
      await close();
    });

    test("uses are raised in one write and never set back, and an unknown id is ignored", async () => {
      const { store, close } = await withTokens(
        serviceTokenRecordOf({ id: "a", name: "a" }),
        serviceTokenRecordOf({ id: "b", name: "b", lastUseTimeMs: at }),
      );
      await store.recordUses(new Map(Object.entries({ a: at, b: at - 1, c: at })));
      await store.recordUses(new Map());
      expect(await store.find("a")).toMatchObject({ lastUseTimeMs: at, version: 1 });
      expect(await store.find("b")).toMatchObject({ lastUseTimeMs: at });
      expect(await store.find("c")).toBeUndefined();
      await close();
    });

    test("a deleted token is gone, its name is free, and deleting it again is no error", async () => {
      const { store, close } = await withTokens(serviceTokenRecordOf({ id: "a" }));
      await store.delete("a");
      await store.delete("a");
      expect(await store.find("a")).toBeUndefined();
      expect(await store.insert(serviceTokenRecordOf({ id: "b" }), limits)).toEqual({ kind: "inserted" });
      await close();
    });

    test("a closed store answers nothing", async () => {
      const { store, close } = await withTokens();
      await close();
      await expect(store.find("a")).rejects.toMatchObject({ reason: "UNAVAILABLE" });
    });
  });
}
