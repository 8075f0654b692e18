import { describe, expect, test } from "vitest";
import type { BackgroundEnd, BackgroundRecord } from "#src/run/background/background-store.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function backgroundRunStoreContract(name: string, open: OpenStores): void {
  describe(`BackgroundRunStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const runs = () => stores().backgroundRuns;
    const far = 9_000_000_000_000;
    const recordOf = (id: string, facts: Partial<BackgroundRecord> = {}): BackgroundRecord => ({
      ...{ id, teamId: `${id}-team`, appId: "report", keyId: "key", state: "running", owner: `${id}-owner` },
      ...{ textBytes: null, error: null, createTimeMs: 1_000, endTimeMs: null, expireTimeMs: null },
      ...facts,
    });
    const succeeded = (text: string | null, facts: Partial<BackgroundEnd> = {}): BackgroundEnd => ({
      ...{ state: "succeeded", text, error: null, endTimeMs: 2_000, expireTimeMs: far },
      ...facts,
    });
    const error = { code: "run_cancelled", message: "It was \0 cancelled “so” 🙂.", status: 409 };
    const cancelled: BackgroundEnd = { ...succeeded(null), state: "cancelled", error };
    const endedOf = (record: BackgroundRecord, end: BackgroundEnd): BackgroundRecord => {
      const { text, ...facts } = end;
      return { ...record, ...facts, textBytes: text === null ? null : Buffer.byteLength(text) };
    };
    /** Inserts so many of a team, the nth created at 1,000 + n. */
    const insertMany = async (count: number, facts: Partial<BackgroundRecord> = {}) => {
      const prefix = newPrefix();
      const records = Array.from({ length: count }, (_, n) =>
        recordOf(`${prefix}-${n}`, { teamId: prefix, createTimeMs: 1_000 + n, ...facts }),
      );
      for (const each of records) await runs().insert(each);
      return { prefix, records, ids: records.map(({ id }) => id) };
    };

    test("a run is kept as it was inserted, and no second one takes its id", async () => {
      const record = recordOf(newPrefix());
      expect(await runs().find(record.id)).toBeUndefined();
      await runs().insert(record);
      expect(await runs().find(record.id)).toEqual(record);
      expect(await runs().textOf(record.id)).toBeNull();
      await expect(runs().insert({ ...record, appId: "another" })).rejects.toThrow();
      expect(await runs().find(record.id)).toEqual(record);
    });

    test("the first end stands, and each caller that would end it gets that one", async () => {
      const record = recordOf(newPrefix());
      await runs().insert(record);
      const ended = endedOf(record, cancelled);
      expect(await runs().end(record.id, cancelled)).toEqual(ended);
      expect(await runs().end(record.id, succeeded("too late"))).toEqual(ended);
      expect(await runs().find(record.id)).toEqual(ended);
      expect(await runs().textOf(record.id)).toBeNull();
      expect(await runs().end(`${record.id}-none`, cancelled)).toBeUndefined();
      expect(await runs().find(`${record.id}-none`)).toBeUndefined();
    });

    test.each([
      ["nothing", ""],
      ["any character", "a\0b\u{1f5dd}\n日本 \u2028\ufeff\ufffd"],
      ["as much as is kept of one run", "x".repeat(15 * 1024 * 1024)],
    ])("a text of %s comes back exactly", async (_, text) => {
      const record = recordOf(newPrefix());
      await runs().insert(record);
      expect(await runs().end(record.id, succeeded(text))).toEqual(endedOf(record, succeeded(text)));
      expect((await runs().textOf(record.id)) === text).toBe(true);
    });

    test("all runs of a team, an app or an owner are ended together, so many at once, and no others", async () => {
      const { prefix, records, ids } = await insertMany(3);
      const other = recordOf(`${prefix}-other`);
      await runs().insert(other);
      await runs().end(ids[1]!, succeeded("done"));
      const first = await runs().endAll({ teamId: prefix }, cancelled, 1);
      expect(first.length).toBe(1);
      const second = await runs().endAll({ teamId: prefix }, cancelled, 10);
      expect([...first, ...second].sort()).toEqual([ids[0], ids[2]]);
      expect(await runs().endAll({ teamId: prefix }, cancelled, 10)).toEqual([]);
      expect(await runs().find(ids[0]!)).toEqual(endedOf(records[0]!, cancelled));
      expect((await runs().find(ids[1]!))?.state).toBe("succeeded");
      expect(await runs().find(other.id)).toEqual(other);
      expect(await runs().endAll({ owner: other.owner }, cancelled, 10)).toEqual([other.id]);
      expect(await runs().endAll({ owner: other.owner }, cancelled, 0)).toEqual([]);
    });

    test("of an app, the runs of some teams can be left out", async () => {
      const { prefix, ids } = await insertMany(2, { appId: newPrefix() });
      const { appId } = (await runs().find(ids[0]!))!;
      const other = recordOf(`${prefix}-other`, { appId });
      await runs().insert(other);
      expect(await runs().endAll({ appId, exceptTeamIds: [prefix] }, cancelled, 10)).toEqual([other.id]);
      expect((await runs().endAll({ appId }, cancelled, 10)).sort()).toEqual(ids);
    });

    test("the runs under way and their owners are known, and no others", async () => {
      const { ids, prefix } = await insertMany(2, { owner: newPrefix() });
      const { owner } = (await runs().find(ids[0]!))!;
      expect(await runs().owners()).toContain(owner);
      expect((await runs().stillRunning([...ids, `${prefix}-none`])).sort()).toEqual(ids);
      await runs().end(ids[0]!, cancelled);
      expect(await runs().stillRunning(ids)).toEqual([ids[1]]);
      await runs().end(ids[1]!, succeeded(""));
      expect(await runs().owners()).not.toContain(owner);
      expect(await runs().stillRunning([])).toEqual([]);
    });

    test("a list has the newest first, ties by id, after a place, and of some apps", async () => {
      const { prefix, ids } = await insertMany(4);
      const tied = recordOf(`${prefix}-3a`, { teamId: prefix, createTimeMs: 1_003, appId: "other" });
      await runs().insert(tied);
      const idsOf = async (query: Parameters<ReturnType<typeof runs>["list"]>[1]) =>
        (await runs().list(prefix, query)).map(({ id }) => id);
      const all = [tied.id, ids[3], ids[2], ids[1], ids[0]];
      expect(await idsOf({ limit: 10 })).toEqual(all);
      expect(await idsOf({ limit: 2 })).toEqual(all.slice(0, 2));
      expect(await idsOf({ limit: 2, after: { timeMs: 1_003, id: tied.id } })).toEqual(all.slice(1, 3));
      expect(await idsOf({ limit: 10, after: { timeMs: 1_000, id: ids[0]! } })).toEqual([]);
      expect(await idsOf({ limit: 10, appIds: ["other", "none"] })).toEqual([tied.id]);
      expect(await idsOf({ limit: 0 })).toEqual([]);
      expect(await runs().list(`${prefix}-none`, { limit: 10 })).toEqual([]);
    });

    test("a record is removed, whatever its state", async () => {
      const { ids } = await insertMany(2);
      await runs().end(ids[0]!, succeeded("text"));
      for (const id of ids) await runs().remove(id);
      for (const id of ids) expect(await runs().find(id)).toBeUndefined();
      await runs().remove(ids[0]!);
    });

    test("a team's records and the bytes of their texts are counted", async () => {
      const { prefix, ids } = await insertMany(3);
      expect(await runs().totals(prefix)).toEqual({ records: 3, textBytes: 0 });
      await runs().end(ids[0]!, succeeded("日本"));
      await runs().end(ids[1]!, succeeded(""));
      expect(await runs().totals(prefix)).toEqual({ records: 3, textBytes: 6 });
      expect(await runs().totals(`${prefix}-none`)).toEqual({ records: 0, textBytes: 0 });
    });

    test("the oldest that have ended make room, and none that runs", async () => {
      const { prefix, ids } = await insertMany(4);
      for (const id of ids.slice(1)) await runs().end(id, succeeded("abc"));
      const old = { createdUntilMs: 1_002, limit: 1 };
      expect(await runs().deleteOldest(prefix, old)).toEqual({ records: 1, textBytes: 3 });
      expect(await runs().find(ids[1]!)).toBeUndefined();
      expect(await runs().deleteOldest(prefix, { ...old, limit: 10 })).toEqual({ records: 1, textBytes: 3 });
      expect(await runs().deleteOldest(prefix, { ...old, limit: 10 })).toEqual({ records: 0, textBytes: 0 });
      expect((await runs().list(prefix, { limit: 10 })).map(({ id }) => id)).toEqual([ids[3], ids[0]]);
    });

    test("texts are dropped, first of the records that expire first, and the records stay", async () => {
      const { prefix, ids } = await insertMany(3);
      for (const [n, id] of ids.entries()) await runs().end(id, succeeded("abcd", { expireTimeMs: far - n }));
      expect(await runs().dropTexts(prefix, { bytes: 5, limit: 1 })).toBe(4);
      expect(await runs().dropTexts(prefix, { bytes: 1, limit: 10 })).toBe(4);
      expect(await Promise.all(ids.map((id) => runs().textOf(id)))).toEqual(["abcd", null, null]);
      expect(await runs().find(ids[2]!)).toMatchObject({ state: "succeeded", textBytes: null });
      expect(await runs().dropTexts(prefix, { bytes: 100, limit: 10 })).toBe(4);
      expect(await runs().dropTexts(prefix, { bytes: 100, limit: 10 })).toBe(0);
    });

    test("what has expired is removed, by team, and never a run under way", async () => {
      const { prefix, ids } = await insertMany(3);
      await runs().end(ids[0]!, succeeded("abc", { expireTimeMs: 5 }));
      await runs().end(ids[1]!, succeeded("abc", { expireTimeMs: 6 }));
      let removed = { records: 0, textBytes: 0 };
      for (;;) {
        const found = await runs().deleteExpired({ nowMs: 5, limit: 10 });
        if (found.size === 0) break;
        removed = found.get(prefix) ?? removed;
      }
      expect(removed).toEqual({ records: 1, textBytes: 3 });
      expect((await runs().list(prefix, { limit: 10 })).map(({ id }) => id)).toEqual([ids[2], ids[1]]);
    });

    test("all records of a team are deleted, so many at once, whatever their state", async () => {
      const { prefix, ids } = await insertMany(3);
      await runs().end(ids[0]!, succeeded("abc"));
      expect(await runs().deleteAll(prefix, 2)).toBe(2);
      expect(await runs().deleteAll(prefix, 2)).toBe(1);
      expect(await runs().deleteAll(prefix, 2)).toBe(0);
      expect(await runs().list(prefix, { limit: 10 })).toEqual([]);
    });
  });
}
