import { describe, expect, test } from "vitest";
import type { RunChange, RunEnd, RunRecord, RunState } from "#src/run/kept/run-store.ts";
import { runEndOf, runRecordOf } from "../harness/store-records.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function runStoreContract(name: string, open: OpenStores): void {
  describe(`RunStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const runs = () => stores().runs;
    const far = 9_000_000_000_000;
    const insertOf = (record: RunRecord): RunChange => ({ kind: "insert", id: record.id, record });
    const endOf = (id: string, end: RunEnd): RunChange => ({ kind: "end", id, end });
    const removeOf = (id: string, state: RunState = "running"): RunChange => ({ kind: "remove", id, state });
    const write = async (change: RunChange) => (await runs().write([change]))[0];
    const insert = (record: RunRecord) => write(insertOf(record));
    const end = (id: string, ending: RunEnd) => write(endOf(id, ending));
    /** Inserts a record and ends it with a text. */
    const keep = async (record: RunRecord, text: string | null) => {
      expect(await insert(record)).toBeUndefined();
      const { expireTimeMs } = record;
      expect(await end(record.id, runEndOf(text, { expireTimeMs }))).toBeUndefined();
    };
    const error = { code: "run_cancelled", message: "It was \0 cancelled “so” 🙂.", status: 409 };
    const cancelled = runEndOf(null, { state: "cancelled", error });
    const endedOf = (record: RunRecord, { text, freesKey, ...facts }: RunEnd): RunRecord => ({
      ...record,
      ...facts,
      ...(freesKey && { keyHash: record.id }),
      textBytes: text === null ? null : Buffer.byteLength(text),
    });
    /** Inserts so many listed runs of a team, the nth created at 1,000 + n. */
    const insertMany = async (count: number, facts: Partial<RunRecord> = {}) => {
      const prefix = newPrefix();
      const records = Array.from({ length: count }, (_, n) =>
        runRecordOf({
          ...{ id: `${prefix}-${n}`, teamId: prefix, createTimeMs: 1_000 + n, listed: true },
          ...facts,
        }),
      );
      for (const each of records) await insert(each);
      return { prefix, records, ids: records.map(({ id }) => id) };
    };

    test("a run is kept as it was inserted, and another with its key meets it and changes nothing", async () => {
      const id = newPrefix();
      const first = runRecordOf({ id, keyHash: `${id}-key`, fingerprint: "f", listed: true });
      expect(await runs().find(id)).toBeUndefined();
      expect(await runs().findByKey(first.keyHash)).toBeUndefined();
      expect(await insert(first)).toBeUndefined();
      expect(await runs().find(id)).toEqual(first);
      expect(await insert({ ...first, id: `${id}-other`, fingerprint: "g" })).toEqual(first);
      expect(await runs().find(`${id}-other`)).toBeUndefined();
      expect(await runs().findByKey(first.keyHash)).toEqual(first);
      expect(await runs().textOf(id)).toBeNull();
    });

    test("an expired record stands in the way, too, so that who meets it sees and removes it", async () => {
      const first = runRecordOf({ id: newPrefix(), expireTimeMs: 1 });
      await insert(first);
      expect(await insert({ ...first, id: `${first.id}-other` })).toEqual(first);
    });

    test("of inserts with one key at once, exactly one is made", async () => {
      const keyHash = newPrefix();
      const records = Array.from({ length: 8 }, (_, n) => runRecordOf({ id: `${keyHash}-${n}`, keyHash }));
      const met = await Promise.all(records.map(insert));
      const made = records.filter((_, n) => met[n] === undefined);
      expect(made.length).toBe(1);
      for (const found of met) if (found) expect(found).toEqual(made[0]);
      const again = records.map(({ id, ...facts }) => ({ ...facts, id: `${id}-2`, keyHash: `${keyHash}-2` }));
      const others = await runs().write(again.map(insertOf));
      expect(others.filter((found) => found === undefined).length).toBe(1);
    });

    test.each([
      ["nothing", ""],
      ["any character", "a\0b\u{1f5dd}\n日本 \u2028\ufeff\ufffd"],
      ["as much as is kept of one run", "x".repeat(15 * 1024 * 1024)],
    ])("a text of %s comes back exactly", async (_, text) => {
      const record = runRecordOf({ id: newPrefix() });
      await keep(record, text);
      expect((await runs().textOf(record.id)) === text).toBe(true);
      expect(await runs().find(record.id)).toEqual(endedOf(record, runEndOf(text)));
      await runs().deleteAll(record.teamId, 1);
    });

    test.each([
      ["succeeded", runEndOf("text")],
      ["failed", runEndOf(null, { state: "failed", error })],
      ["was cancelled", cancelled],
    ])(
      "the first end stands: who ends or removes a run that %s meets it, and changes nothing",
      async (_, ending) => {
        const record = runRecordOf({ id: newPrefix() });
        await insert(record);
        expect(await end(record.id, ending)).toBeUndefined();
        const ended = endedOf(record, ending);
        expect(await end(record.id, runEndOf("too late", { endTimeMs: 3_000 }))).toEqual(ended);
        expect(await write(removeOf(record.id))).toBeUndefined();
        expect(await runs().find(record.id)).toEqual(ended);
        expect(await runs().textOf(record.id)).toBe(ending.text);
        await write(removeOf(record.id, ending.state));
        expect(await runs().find(record.id)).toBeUndefined();
      },
    );

    test("there is nothing to end or to remove where there is no record", async () => {
      const id = newPrefix();
      expect(await end(id, cancelled)).toBeUndefined();
      expect(await write(removeOf(id))).toBeUndefined();
      expect(await runs().find(id)).toBeUndefined();
    });

    test("a run that is removed frees its key, and so does an end that says so, whose record stays", async () => {
      const id = newPrefix();
      const record = runRecordOf({ id, keyHash: `${id}-key`, listed: true });
      await insert(record);
      await write(removeOf(id));
      expect(await insert({ ...record, id: `${id}-2` })).toBeUndefined();
      const ending = { ...cancelled, freesKey: true };
      expect(await end(`${id}-2`, ending)).toBeUndefined();
      expect(await runs().find(`${id}-2`)).toEqual(endedOf({ ...record, id: `${id}-2` }, ending));
      expect(await insert({ ...record, id: `${id}-3` })).toBeUndefined();
    });

    test("one write makes changes of every kind, and answers each in its place", async () => {
      const prefix = newPrefix();
      const [taken, free, ended, removed, over] = ["a", "b", "c", "d", "e"].map((n) =>
        runRecordOf({ id: prefix + n }),
      );
      for (const one of [taken!, ended!, removed!]) await insert(one);
      await keep(over!, "done");
      const outcomes = await runs().write([
        insertOf({ ...taken!, id: `${prefix}other` }),
        endOf(ended!.id, runEndOf("text")),
        insertOf(free!),
        removeOf(removed!.id),
        endOf(over!.id, cancelled),
      ]);
      const standing = endedOf(over!, runEndOf("done"));
      expect(outcomes).toEqual([taken, undefined, undefined, undefined, standing]);
      expect(await runs().find(free!.id)).toEqual(free);
      expect(await runs().textOf(ended!.id)).toBe("text");
      expect(await runs().find(removed!.id)).toBeUndefined();
      expect(await runs().write([])).toEqual([]);
    });

    test("all runs of a team, an app or an owner are ended together, so many at once, and no others", async () => {
      const { prefix, records, ids } = await insertMany(3);
      const other = runRecordOf({ id: `${prefix}-other` });
      await insert(other);
      await end(ids[1]!, runEndOf("done"));
      const first = await runs().endAll({ teamId: prefix }, cancelled, 1);
      expect(first.length).toBe(1);
      const second = await runs().endAll({ teamId: prefix }, cancelled, 10);
      expect([...first, ...second].sort()).toEqual([ids[0], ids[2]]);
      expect(await runs().endAll({ teamId: prefix }, cancelled, 10)).toEqual([]);
      expect(await runs().find(ids[0]!)).toEqual(endedOf(records[0]!, cancelled));
      expect((await runs().find(ids[1]!))?.state).toBe("succeeded");
      expect(await runs().find(other.id)).toEqual(other);
      expect(await runs().endAll({ owner: other.owner, listed: true }, cancelled, 10)).toEqual([]);
      expect(await runs().endAll({ owner: other.owner }, cancelled, 10)).toEqual([other.id]);
      expect(await runs().endAll({ owner: other.owner }, cancelled, 0)).toEqual([]);
    });

    test("of an app, the runs of some teams can be left out", async () => {
      const { prefix, ids } = await insertMany(2, { appId: newPrefix() });
      const { appId } = (await runs().find(ids[0]!))!;
      const other = runRecordOf({ id: `${prefix}-other`, appId });
      await insert(other);
      expect(await runs().endAll({ appId, exceptTeamIds: [prefix] }, cancelled, 10)).toEqual([other.id]);
      expect((await runs().endAll({ appId }, cancelled, 10)).sort()).toEqual(ids);
    });

    test("the runs under way and their owners are known, and no others", async () => {
      const { ids, prefix } = await insertMany(2, { owner: newPrefix() });
      const { owner } = (await runs().find(ids[0]!))!;
      expect(await runs().owners()).toContain(owner);
      expect((await runs().stillRunning([...ids, `${prefix}-none`])).sort()).toEqual(ids);
      await end(ids[0]!, cancelled);
      expect(await runs().stillRunning(ids)).toEqual([ids[1]]);
      await end(ids[1]!, runEndOf(""));
      expect(await runs().owners()).not.toContain(owner);
      expect(await runs().stillRunning([])).toEqual([]);
    });

    test("a list has the listed, newest first, ties by id, after a place, and of some apps", async () => {
      const { prefix, ids } = await insertMany(4);
      const tied = { id: `${prefix}-3a`, teamId: prefix, createTimeMs: 1_003, appId: "other", listed: true };
      await insert(runRecordOf(tied));
      await insert(runRecordOf({ ...tied, id: `${prefix}-3b`, listed: false }));
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

    test("a team's records and the bytes of their texts are counted", async () => {
      const teamId = newPrefix();
      expect(await runs().totals(teamId)).toEqual({ records: 0, textBytes: 0 });
      await keep(runRecordOf({ id: `${teamId}a`, teamId }), "four");
      await keep(runRecordOf({ id: `${teamId}b`, teamId }), "日本");
      await keep(runRecordOf({ id: `${teamId}c`, teamId }), "");
      await insert(runRecordOf({ id: `${teamId}d`, teamId }));
      await keep(runRecordOf({ id: `${teamId}e` }), "of another team");
      expect(await runs().totals(teamId)).toEqual({ records: 4, textBytes: 10 });
    });

    test("the oldest that have ended make room, and none that runs or is younger", async () => {
      const { prefix, ids } = await insertMany(5);
      for (const id of ids.slice(1)) await end(id, runEndOf("abc"));
      await keep(runRecordOf({ id: `${prefix}other`, createTimeMs: 1 }), "stays");
      const until = (limit: number) => runs().deleteOldest(prefix, { createdUntilMs: 1_003, limit });
      expect(await until(0)).toEqual({ records: 0, textBytes: 0 });
      expect(await until(1)).toEqual({ records: 1, textBytes: 3 });
      expect(await runs().find(ids[1]!)).toBeUndefined();
      expect(await until(10)).toEqual({ records: 2, textBytes: 6 });
      expect(await until(10)).toEqual({ records: 0, textBytes: 0 });
      expect((await runs().list(prefix, { limit: 10 })).map(({ id }) => id)).toEqual([ids[4], ids[0]]);
      expect(await runs().find(`${prefix}other`)).toBeDefined();
    });

    test("texts are dropped, first those that expire first, and their records stay", async () => {
      const teamId = newPrefix();
      const idOf = (expireTimeMs: number) => teamId + expireTimeMs;
      const one = (expireTimeMs: number) => runRecordOf({ id: idOf(expireTimeMs), teamId, expireTimeMs });
      for (const time of [3, 1, 2, 4]) await keep(one(time), "four");
      await keep(one(5), "");
      await keep(runRecordOf({ id: `${teamId}other`, expireTimeMs: 1 }), "stays");
      const drop = (bytes: number, limit: number) => runs().dropTexts(teamId, { bytes, limit });
      const texts = () => Promise.all([1, 2, 3, 4, 5].map((time) => runs().textOf(idOf(time))));
      expect(await drop(1, 0)).toBe(0);
      expect(await drop(5, 9)).toBe(8);
      expect(await texts()).toEqual([null, null, "four", "four", ""]);
      expect(await drop(99, 1)).toBe(4);
      expect(await drop(99, 9)).toBe(4);
      expect(await drop(99, 9)).toBe(0);
      expect(await texts()).toEqual([null, null, null, null, ""]);
      expect(await runs().totals(teamId)).toEqual({ records: 5, textBytes: 0 });
      expect(await runs().find(idOf(1))).toMatchObject({ state: "succeeded", textBytes: null });
      expect(await runs().totals(`${teamId}other-team`)).toEqual({ records: 1, textBytes: 5 });
    });

    test("expired records are removed, a batch at a time, and are told by team", async () => {
      const prefix = newPrefix();
      const [a, b] = [`${prefix}a`, `${prefix}b`];
      await keep(runRecordOf({ id: `${prefix}1`, teamId: a, expireTimeMs: 10 }), "four");
      await keep(runRecordOf({ id: `${prefix}2`, teamId: b, expireTimeMs: 9 }), "seven..");
      await insert(runRecordOf({ id: `${prefix}3`, teamId: a, expireTimeMs: 10 }));
      await insert(runRecordOf({ id: `${prefix}4`, teamId: a, expireTimeMs: 11 }));
      // Other tests of this suite leave expired records.
      while ((await runs().deleteExpired({ nowMs: 8, limit: 100 })).size > 0);
      expect(await runs().deleteExpired({ nowMs: 10, limit: 0 })).toEqual(new Map());
      expect(await runs().deleteExpired({ nowMs: 10, limit: 9 })).toEqual(
        new Map([
          [a, { records: 2, textBytes: 4 }],
          [b, { records: 1, textBytes: 7 }],
        ]),
      );
      expect(await runs().deleteExpired({ nowMs: 10, limit: 9 })).toEqual(new Map());
      expect(await runs().find(`${prefix}4`)).toBeDefined();
    });

    test("of the expired records those go first that expired first", async () => {
      const prefix = newPrefix();
      while ((await runs().deleteExpired({ nowMs: 30, limit: 100 })).size > 0);
      for (const [expireTimeMs, createTimeMs] of [
        [20, 7],
        [30, 6],
        [10, 8],
      ] as const) {
        await insert(runRecordOf({ id: prefix + expireTimeMs, expireTimeMs, createTimeMs }));
      }
      for (const gone of [10, 20, 30]) {
        expect((await runs().deleteExpired({ nowMs: 30, limit: 1 })).size).toBe(1);
        expect(await runs().find(prefix + gone)).toBeUndefined();
      }
    });

    test("all records of a team are removed, so many at once, whatever their state, and of no other", async () => {
      const { prefix, ids } = await insertMany(3);
      await end(ids[0]!, runEndOf("abc", { expireTimeMs: far }));
      await keep(runRecordOf({ id: `${prefix}other` }), "stays");
      expect(await runs().deleteAll(prefix, 0)).toBe(0);
      expect(await runs().deleteAll(prefix, 2)).toBe(2);
      expect(await runs().deleteAll(prefix, 2)).toBe(1);
      expect(await runs().deleteAll(prefix, 2)).toBe(0);
      expect(await runs().totals(prefix)).toEqual({ records: 0, textBytes: 0 });
      expect(await runs().find(`${prefix}other`)).toBeDefined();
    });
  });
}
