import { describe, expect, test } from "vitest";
import type { RunClaim, RunEnd, RunRelease, RunState } from "#src/run/idempotency/run-record-store.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function runRecordStoreContract(name: string, open: OpenStores): void {
  describe(`RunRecordStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const records = () => stores().runRecords;
    const far = 9_000_000_000_000;
    const claimOf = (id: string, facts: Partial<RunClaim> = {}): RunClaim => ({
      ...{ id, teamId: `${id}-team`, fingerprint: "f", runId: `run-of-${id}`, state: "running" },
      ...{ createTimeMs: 1_000, runUntilMs: 2_000, expireTimeMs: far },
      ...facts,
    });
    const claim = async (one: RunClaim) =>
      (await records().write([{ kind: "claim", id: one.id, claim: one }]))[0];
    const endOf = ({ id, runId }: RunClaim, text: string | null, facts: Partial<RunEnd> = {}): RunEnd => ({
      ...{ kind: "end", id, runId, state: "done", text, textBytes: Buffer.byteLength(text ?? "") },
      ...{ expireTimeMs: far },
      ...facts,
    });
    const releaseOf = ({ id, runId }: RunClaim, state: RunState = "running"): RunRelease => ({
      ...{ kind: "release", id, runId, state },
    });
    /** Claims a record and ends it with a text. */
    const keep = async (one: RunClaim, text: string) => {
      expect(await claim(one)).toBeUndefined();
      await records().write([endOf(one, text, { expireTimeMs: one.expireTimeMs })]);
    };
    const claimed = (one: RunClaim) => ({ ...one, state: "running", textBytes: 0 });

    test("a claim is kept as it was made, and a second one meets it and changes nothing", async () => {
      const id = newPrefix();
      const first = claimOf(id);
      expect(await records().find(id)).toBeUndefined();
      expect(await claim(first)).toBeUndefined();
      expect(await records().find(id)).toEqual(claimed(first));
      expect(await claim(claimOf(id, { runId: "another", fingerprint: "g" }))).toEqual(claimed(first));
      expect(await records().find(id)).toEqual(claimed(first));
      expect(await records().textOf(id, first.runId)).toBeNull();
    });

    test("an expired record stands in the way, too, so that its owner sees and removes it", async () => {
      const first = claimOf(newPrefix(), { expireTimeMs: 1 });
      await claim(first);
      expect(await claim({ ...first, runId: "another" })).toEqual(claimed(first));
    });

    test.each([
      ["nothing", ""],
      ["any character", "a\0b\u{1f5dd}\n日本 \u2028\ufeff\ufffd"],
      ["as much as is kept of one run", "x".repeat(15 * 1024 * 1024)],
    ])("a text of %s comes back exactly", async (_, text) => {
      const one = claimOf(newPrefix());
      await keep(one, text);
      expect((await records().textOf(one.id, one.runId)) === text).toBe(true);
      expect(await records().textOf(one.id, "another")).toBeNull();
      expect(await records().find(one.id)).toEqual({
        ...{ ...claimed(one), state: "done", textBytes: Buffer.byteLength(text) },
      });
      await records().deleteAll(one.teamId, 1);
    });

    test("an end without a text, and one of another run or of no record", async () => {
      const one = claimOf(newPrefix());
      await claim(one);
      await records().write([endOf({ ...one, runId: "another" }, "wrong")]);
      expect(await records().find(one.id)).toEqual(claimed(one));
      await records().write([endOf(one, null, { state: "app_failed", expireTimeMs: 5_000 })]);
      const ended = { ...claimed(one), state: "app_failed", expireTimeMs: 5_000 };
      expect(await records().find(one.id)).toEqual(ended);
      const none = claimOf(newPrefix());
      await records().write([endOf(none, "text")]);
      expect(await records().find(none.id)).toBeUndefined();
    });

    test("a release frees the key, but only of its own run", async () => {
      const one = claimOf(newPrefix());
      await claim(one);
      await records().write([releaseOf({ ...one, runId: "another" })]);
      expect(await records().find(one.id)).toEqual(claimed(one));
      await records().write([releaseOf(one)]);
      expect(await claim({ ...one, runId: "next" })).toBeUndefined();
    });

    test.each([
      ["done", "text"],
      ["app_failed", null],
    ] as const)(
      "the first end stands: of a run that is %s, nothing is changed or freed",
      async (state, text) => {
        const one = claimOf(newPrefix());
        await claim(one);
        await records().write([endOf(one, text, { state, expireTimeMs: 5_000 })]);
        const ended = await records().find(one.id);
        expect(ended).toMatchObject({ state, expireTimeMs: 5_000 });
        for (const late of [endOf(one, "late"), endOf(one, null, { state: "app_timeout" }), releaseOf(one)]) {
          expect(await records().write([late])).toEqual([undefined]);
          expect(await records().find(one.id)).toEqual(ended);
        }
        expect(await records().textOf(one.id, one.runId)).toBe(text);
        await records().write([releaseOf(one, state)]);
        expect(await records().find(one.id)).toBeUndefined();
      },
    );

    test("one write makes changes of every kind, and answers each in its place", async () => {
      const prefix = newPrefix();
      const [taken, free, ended, released] = ["a", "b", "c", "d"].map((n) => claimOf(prefix + n));
      for (const one of [taken!, ended!, released!]) await claim(one);
      const other = { ...taken!, runId: "another" };
      const outcomes = await records().write([
        { kind: "claim", id: other.id, claim: other },
        endOf(ended!, "text"),
        { kind: "claim", id: free!.id, claim: free! },
        releaseOf(released!),
      ]);
      expect(outcomes).toEqual([claimed(taken!), undefined, undefined, undefined]);
      expect(await records().find(free!.id)).toEqual(claimed(free!));
      expect(await records().textOf(ended!.id, ended!.runId)).toBe("text");
      expect(await records().find(released!.id)).toBeUndefined();
      expect(await records().write([])).toEqual([]);
    });

    test("of claims of one id at once, exactly one is made", async () => {
      const id = newPrefix();
      const claims = Array.from({ length: 8 }, (_, n) => claimOf(id, { runId: `run-${n}` }));
      const met = await Promise.all(claims.map(claim));
      const made = claims.filter((_, n) => met[n] === undefined);
      expect(made.length).toBe(1);
      for (const found of met) if (found) expect(found).toEqual(claimed(made[0]!));
    });

    test("totals count a team's records and the bytes of its texts", async () => {
      const teamId = newPrefix();
      expect(await records().totals(teamId)).toEqual({ records: 0, textBytes: 0 });
      await keep(claimOf(`${teamId}a`, { teamId }), "four");
      await keep(claimOf(`${teamId}b`, { teamId }), "日本");
      await claim(claimOf(`${teamId}c`, { teamId }));
      await keep(claimOf(`${teamId}d`), "of another team");
      expect(await records().totals(teamId)).toEqual({ records: 3, textBytes: 10 });
    });

    test("the oldest records of a team are removed up to a time, a batch at a time", async () => {
      const teamId = newPrefix();
      const one = (createTimeMs: number) => claimOf(teamId + createTimeMs, { teamId, createTimeMs });
      for (const time of [30, 10, 20, 40]) await keep(one(time), "four");
      await keep(claimOf(`${teamId}other`, { createTimeMs: 1 }), "stays");
      const until = (createdUntilMs: number, limit: number) =>
        records().deleteOldest(teamId, { createdUntilMs, limit });
      expect(await until(30, 0)).toEqual({ records: 0, textBytes: 0 });
      expect(await until(30, 2)).toEqual({ records: 2, textBytes: 8 });
      const left = await Promise.all([10, 20, 30, 40].map((time) => records().find(teamId + time)));
      expect(left.map((found) => found !== undefined)).toEqual([false, false, true, true]);
      expect(await until(30, 9)).toEqual({ records: 1, textBytes: 4 });
      expect(await until(30, 9)).toEqual({ records: 0, textBytes: 0 });
      expect(await records().find(`${teamId}other`)).toBeDefined();
    });

    test("texts are dropped, first those that expire first, and their records stay", async () => {
      const teamId = newPrefix();
      const one = (expireTimeMs: number) => claimOf(teamId + expireTimeMs, { teamId, expireTimeMs });
      for (const time of [3, 1, 2, 4]) await keep(one(time), "four");
      await keep(one(5), "");
      await keep(claimOf(`${teamId}other`, { expireTimeMs: 1 }), "stays");
      const drop = (bytes: number, limit: number) => records().dropTexts(teamId, { bytes, limit });
      const texts = () =>
        Promise.all([1, 2, 3, 4, 5].map((time) => records().textOf(one(time).id, one(time).runId)));
      expect(await drop(1, 0)).toBe(0);
      expect(await drop(5, 9)).toBe(8);
      expect(await texts()).toEqual([null, null, "four", "four", ""]);
      expect(await drop(99, 1)).toBe(4);
      expect(await drop(99, 9)).toBe(4);
      expect(await drop(99, 9)).toBe(0);
      expect(await texts()).toEqual([null, null, null, null, ""]);
      expect(await records().totals(teamId)).toEqual({ records: 5, textBytes: 0 });
      expect(await records().find(one(1).id)).toEqual({ ...claimed(one(1)), state: "done" });
      expect(await records().totals(`${teamId}other-team`)).toEqual({ records: 1, textBytes: 5 });
    });

    test("expired records are removed, a batch at a time, and are told by team", async () => {
      const prefix = newPrefix();
      const [a, b] = [`${prefix}a`, `${prefix}b`];
      await keep(claimOf(`${prefix}1`, { teamId: a, expireTimeMs: 10 }), "four");
      await keep(claimOf(`${prefix}2`, { teamId: b, expireTimeMs: 9 }), "seven..");
      await claim(claimOf(`${prefix}3`, { teamId: a, expireTimeMs: 10 }));
      await claim(claimOf(`${prefix}4`, { teamId: a, expireTimeMs: 11 }));
      // Other tests of this suite leave expired records.
      while ((await records().deleteExpired({ nowMs: 8, limit: 100 })).size > 0);
      expect(await records().deleteExpired({ nowMs: 10, limit: 0 })).toEqual(new Map());
      expect(await records().deleteExpired({ nowMs: 10, limit: 9 })).toEqual(
        new Map([
          [a, { records: 2, textBytes: 4 }],
          [b, { records: 1, textBytes: 7 }],
        ]),
      );
      expect(await records().deleteExpired({ nowMs: 10, limit: 9 })).toEqual(new Map());
      expect(await records().find(`${prefix}4`)).toBeDefined();
    });

    test("of the expired records those go first that expired first", async () => {
      const prefix = newPrefix();
      while ((await records().deleteExpired({ nowMs: 30, limit: 100 })).size > 0);
      for (const [expireTimeMs, createTimeMs] of [
        [20, 7],
        [30, 6],
        [10, 8],
      ] as const) {
        await claim(claimOf(prefix + expireTimeMs, { expireTimeMs, createTimeMs }));
      }
      for (const gone of [10, 20, 30]) {
        expect((await records().deleteExpired({ nowMs: 30, limit: 1 })).size).toBe(1);
        expect(await records().find(prefix + gone)).toBeUndefined();
      }
    });

    test("all records of a team are removed, a batch at a time, and of no other", async () => {
      const teamId = newPrefix();
      for (const n of [1, 2, 3]) await keep(claimOf(`${teamId}${n}`, { teamId }), "text");
      await keep(claimOf(`${teamId}other`), "stays");
      expect(await records().deleteAll(teamId, 0)).toBe(0);
      expect(await records().deleteAll(teamId, 2)).toBe(2);
      expect(await records().deleteAll(teamId, 2)).toBe(1);
      expect(await records().deleteAll(teamId, 2)).toBe(0);
      expect(await records().totals(teamId)).toEqual({ records: 0, textBytes: 0 });
      expect(await records().find(`${teamId}other`)).toBeDefined();
    });
  });
}
