import { describe, expect, test } from "vitest";
import { teamRecordOf } from "../harness/store-records.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function teamStoreContract(name: string, open: OpenStores): void {
  describe(`TeamStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const teams = () => stores().teams;

    test("a team that was inserted is found with every fact it was given", async () => {
      const team = teamRecordOf({ id: `${newPrefix()}a`, displayName: "Ärger & Co.", plan: "enterprise" });
      expect(await teams().insert(team)).toEqual(team);
      expect(await teams().find(team.id)).toEqual(team);
    });

    test("insert returns undefined for a taken id, and leaves the first team as it was", async () => {
      const team = teamRecordOf({ id: `${newPrefix()}a` });
      await teams().insert(team);
      expect(await teams().insert({ ...team, displayName: "Other", plan: "pro" })).toBeUndefined();
      expect(await teams().find(team.id)).toEqual(team);
    });

    test("find and update return undefined for an unknown team", async () => {
      const id = `${newPrefix()}a`;
      expect(await teams().find(id)).toBeUndefined();
      expect(await teams().update(id, { plan: "pro" })).toBeUndefined();
      expect(await teams().find(id)).toBeUndefined();
    });

    test("list returns teams by id, ascending by code unit, in pages that start after an id", async () => {
      const prefix = newPrefix();
      const ids = ["a", "a-", "a-b", "a0", "aa", "b"].map((id) => prefix + id);
      for (const id of [...ids].reverse()) await teams().insert(teamRecordOf({ id }));
      const list = async (limit: number, after: string) =>
        (await teams().list({ limit, after })).map(({ id }) => id);
      expect(await list(10, prefix)).toEqual(ids);
      expect(await list(2, prefix)).toEqual(ids.slice(0, 2));
      expect(await list(2, ids[1]!)).toEqual(ids.slice(2, 4));
      expect(await list(2, ids[5]!)).toEqual([]);
      expect(await list(0, prefix)).toEqual([]);
      expect(await teams().list({ limit: 1 })).toHaveLength(1);
    });

    test("an update changes the given fields alone and raises the version by one", async () => {
      const team = teamRecordOf({ id: `${newPrefix()}a` });
      await teams().insert(team);
      const renamed = { ...team, displayName: "New", version: 2 };
      expect(await teams().update(team.id, { displayName: "New" })).toEqual(renamed);
      const moved = { ...renamed, plan: "team", version: 3 };
      expect(await teams().update(team.id, { plan: "team" })).toEqual(moved);
      expect(await teams().update(team.id, {})).toEqual({ ...moved, version: 4 });
      expect(await teams().find(team.id)).toEqual({ ...moved, version: 4 });
    });

    test("concurrent changes all take effect, one after the other", async () => {
      const team = teamRecordOf({ id: `${newPrefix()}a` });
      await teams().insert(team);
      const answers = await Promise.all([
        ...["pro", "team"].map((plan) => teams().update(team.id, { plan: plan as "pro" | "team" })),
        ...["A", "B", "C"].map((displayName) => teams().update(team.id, { displayName })),
      ]);
      const inOrder = answers.map((answer) => answer?.version ?? 0).sort((a, b) => a - b);
      expect(inOrder).toEqual([2, 3, 4, 5, 6]);
      const last = await teams().find(team.id);
      expect(last).toEqual(answers.find((answer) => answer?.version === 6));
      expect(last?.plan).not.toBe("free");
      expect(last?.displayName).not.toBe("Acme");
    });

    test("an ending team of this version is deleted: it is not found, listed or changed any more", async () => {
      const prefix = newPrefix();
      const team = teamRecordOf({ id: `${prefix}a` });
      await teams().insert(team);
      expect(await teams().delete(team.id, 1)).toBeUndefined();
      expect(await teams().update(team.id, { state: "ending" })).toEqual({
        ...team,
        state: "ending",
        version: 2,
      });
      expect(await teams().delete(team.id, 1)).toBeUndefined();
      expect(await teams().deletedVersion(team.id)).toBeUndefined();
      expect(await teams().delete(team.id, 2)).toBe(3);
      expect(await teams().deletedVersion(team.id)).toBe(3);
      expect(await teams().delete(team.id, 3)).toBeUndefined();
      expect(await teams().find(team.id)).toBeUndefined();
      expect(await teams().update(team.id, { plan: "pro" })).toBeUndefined();
      expect((await teams().list({ limit: 10, after: prefix })).map(({ id }) => id)).not.toContain(team.id);
    });

    test("the id of a deleted team may be used again, by an active team whose version goes on", async () => {
      const team = teamRecordOf({ id: `${newPrefix()}a` });
      await teams().insert(team);
      await teams().update(team.id, { state: "ending" });
      await teams().delete(team.id, 2);
      const next = teamRecordOf({ id: team.id, displayName: "Next", plan: "pro", createTimeMs: 7 });
      const created = await Promise.all([1, 2, 3].map(() => teams().insert(next)));
      expect(created.filter((each) => each !== undefined)).toEqual([{ ...next, version: 4 }]);
      expect(await teams().find(team.id)).toEqual({ ...next, version: 4 });
      expect(await teams().deletedVersion(team.id)).toBeUndefined();
    });

    test("no version was deleted of an id that never was", async () => {
      expect(await teams().deletedVersion(`${newPrefix()}a`)).toBeUndefined();
      expect(await teams().delete(`${newPrefix()}a`, 1)).toBeUndefined();
    });
  });
}
