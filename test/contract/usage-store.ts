import { describe, expect, test } from "vitest";
import type { UsageHour, UsageSum } from "#src/usage/usage-store.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

const hour = 3_600_000;
const day = 24 * hour;
/** A midnight in UTC. */
const day0 = 19_700 * day;

/** A key's counts of the hour from 10:00 on. */
function usageHourOf(facts: Partial<UsageHour> & Pick<UsageHour, "teamId">): UsageHour {
  return {
    keyId: "k1",
    startTimeMs: day0 + 10 * hour,
    incarnation: "i1",
    acceptedCount: 0,
    limitedCount: 0,
    failedCount: 0,
    appMs: 0,
    ...facts,
  };
}

const inOrder = (sums: readonly UsageSum[]) =>
  sums.toSorted((a, b) => a.startTimeMs - b.startTimeMs || (a.keyId < b.keyId ? -1 : 1));
const accepted = (sums: readonly UsageSum[]) =>
  inOrder(sums).map(({ startTimeMs, keyId, acceptedCount }) => [
    (startTimeMs - day0) / hour,
    ...(keyId ? [keyId] : []),
    acceptedCount,
  ]);

export function usageStoreContract(name: string, open: OpenStores): void {
  describe(`UsageStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const usage = () => stores().usage;
    const all = (teamId: string) => ({ teamId, fromMs: day0 - 30 * day, untilMs: day0 + 100 * day });
    const hours = (teamId: string) => usage().hours({ ...all(teamId), except: [] });

    test("a write that is repeated changes nothing, and one with less lowers nothing", async () => {
      const teamId = newPrefix();
      const counts = { acceptedCount: 7, limitedCount: 3, failedCount: 2, appMs: 456 };
      const whole = usageHourOf({ teamId, ...counts });
      const sum = { startTimeMs: whole.startTimeMs, keyId: "", ...counts };
      await usage().recordHours([{ ...whole, acceptedCount: 5 }]);
      await usage().recordHours([whole]);
      await usage().recordHours([whole]);
      expect(await hours(teamId)).toEqual([sum]);
      await usage().recordHours([usageHourOf({ teamId, acceptedCount: 1, appMs: 1 })]);
      expect(await hours(teamId)).toEqual([sum]);
      await usage().recordHours([{ ...whole, failedCount: 4 }]);
      expect(await hours(teamId)).toEqual([{ ...sum, failedCount: 4 }]);
      await usage().recordHours([]);
    });

    test("incarnations and keys are summed, and each hour stands for itself", async () => {
      const [teamId, other] = [newPrefix(), newPrefix()];
      const one = (facts: Partial<UsageHour>) => usageHourOf({ teamId, ...facts });
      await usage().recordHours([
        one({ acceptedCount: 1 }),
        one({ acceptedCount: 10, incarnation: "i2" }),
        one({ acceptedCount: 100, keyId: "k2" }),
        one({ acceptedCount: 1_000, startTimeMs: day0 + 11 * hour }),
        one({ acceptedCount: 5, startTimeMs: day0 + 24 * hour }),
        one({ acceptedCount: 6, startTimeMs: day0 }),
        usageHourOf({ teamId: other, keyId: "k3", acceptedCount: 999 }),
      ]);
      expect(accepted(await hours(teamId))).toEqual([
        [0, 6],
        [10, 111],
        [11, 1_000],
        [24, 5],
      ]);
      expect(accepted(await usage().hours({ ...all(teamId), keyId: "k2", except: [] }))).toEqual([[10, 100]]);
      expect(await usage().hours({ ...all(teamId), keyId: "k3", except: [] })).toEqual([]);
      const each = { ...all(teamId), keyIds: ["k2", "k1", "k3"], except: [] };
      expect(accepted(await usage().hours({ ...each, untilMs: day0 + 11 * hour }))).toEqual([
        [0, "k1", 6],
        [10, "k1", 11],
        [10, "k2", 100],
      ]);
      expect(await hours(newPrefix())).toEqual([]);
    });

    test("a time has its first hour and not its end, and the pages that are left out are those of an hour and an incarnation", async () => {
      const teamId = newPrefix();
      const at = (h: number, facts: Partial<UsageHour> = {}) =>
        usageHourOf({ teamId, startTimeMs: day0 + h * hour, acceptedCount: h, ...facts });
      await usage().recordHours([
        at(9),
        at(10),
        at(11),
        at(12),
        at(11, { incarnation: "i2", acceptedCount: 50 }),
      ]);
      const time = { teamId, fromMs: day0 + 10 * hour, untilMs: day0 + 12 * hour };
      expect(accepted(await usage().hours({ ...time, except: [] }))).toEqual([
        [10, 10],
        [11, 61],
      ]);
      const page = { startTimeMs: day0 + 11 * hour, incarnation: "i1" };
      const absent = { startTimeMs: day0 + 10 * hour, incarnation: "i2" };
      for (const keys of [{}, { keyId: "k1" }]) {
        expect(accepted(await usage().hours({ ...time, ...keys, except: [page, absent] }))).toEqual([
          [10, 10],
          [11, 50],
        ]);
      }
      const each = await usage().hours({ ...time, keyIds: ["k1"], except: [page] });
      expect(accepted(each)).toEqual([
        [10, "k1", 10],
        [11, "k1", 50],
      ]);
    });

    test("a day is the sum of its hours, is raised when they grow, and stays when they are gone", async () => {
      const teamId = newPrefix();
      const at = (h: number, facts: Partial<UsageHour> = {}) =>
        usageHourOf({ teamId, startTimeMs: day0 + h * hour, acceptedCount: 1, appMs: 5, ...facts });
      await usage().recordHours([at(0), at(23, { incarnation: "i2" }), at(24), at(3, { keyId: "k2" })]);
      expect(await usage().newestDay(teamId)).toBeUndefined();
      expect(await usage().daysWithHours(teamId)).toEqual([day0, day0 + day]);
      await usage().setDay(teamId, day0);
      await usage().setDay(teamId, day0);
      expect(await usage().newestDay(teamId)).toBe(day0);
      const days = () => usage().days(all(teamId));
      const sum = {
        startTimeMs: day0,
        keyId: "",
        acceptedCount: 3,
        limitedCount: 0,
        failedCount: 0,
        appMs: 15,
      };
      expect(await days()).toEqual([sum]);
      await usage().recordHours([at(23, { incarnation: "i3", acceptedCount: 4, failedCount: 2 })]);
      await usage().setDay(teamId, day0);
      expect(await days()).toEqual([{ ...sum, acceptedCount: 7, failedCount: 2, appMs: 20 }]);
      expect(await usage().deleteHours(teamId, { beforeMs: day0 + day, limit: 100 })).toBeGreaterThan(0);
      await usage().setDay(teamId, day0);
      expect(await days()).toEqual([{ ...sum, acceptedCount: 7, failedCount: 2, appMs: 20 }]);
      expect(accepted(await usage().days({ ...all(teamId), keyIds: ["k2", "k1"] }))).toEqual([
        [0, "k1", 6],
        [0, "k2", 1],
      ]);
      expect(accepted(await usage().days({ ...all(teamId), keyId: "k2" }))).toEqual([[0, 1]]);
      expect(await usage().days({ ...all(teamId), untilMs: day0 })).toEqual([]);
    });

    test("hours say the same before and after their day is set, and what comes late is seen at once", async () => {
      const teamId = newPrefix();
      const one = (facts: Partial<UsageHour>) =>
        usageHourOf({ teamId, acceptedCount: 1, appMs: 7, ...facts });
      await usage().recordHours([
        one({ limitedCount: 2, failedCount: 3 }),
        one({ acceptedCount: 10, incarnation: "i2" }),
        one({ acceptedCount: 100, keyId: "k2", startTimeMs: day0 + 11 * hour }),
        one({ acceptedCount: 1_000, startTimeMs: day0 + 24 * hour }),
        one({ acceptedCount: 10_000, startTimeMs: day0 + 48 * hour }),
      ]);
      const page = { startTimeMs: day0 + 10 * hour, incarnation: "i1" };
      const seen = async () => [
        inOrder(await hours(teamId)),
        inOrder(await usage().hours({ ...all(teamId), keyIds: ["k1", "k2"], except: [] })),
        inOrder(await usage().hours({ ...all(teamId), fromMs: day0 + 11 * hour, except: [] })),
        inOrder(await usage().hours({ ...all(teamId), except: [page] })),
      ];
      const before = await seen();
      expect(before.map(accepted)[0]).toEqual([
        [10, 11],
        [11, 100],
        [24, 1_000],
        [48, 10_000],
      ]);
      await usage().setDay(teamId, day0);
      await usage().setDay(teamId, day0 + day);
      expect(await seen()).toEqual(before);
      // First what is there already grows, and then something comes beside it.
      await usage().recordHours([one({ acceptedCount: 5 })]);
      expect((await seen()).map(accepted)[0]?.slice(0, 2)).toEqual([
        [10, 15],
        [11, 100],
      ]);
      await usage().recordHours([
        one({ acceptedCount: 50, incarnation: "i3", startTimeMs: day0 + 13 * hour }),
      ]);
      const late = await seen();
      expect(late.map(accepted)[0]?.slice(0, 3)).toEqual([
        [10, 15],
        [11, 100],
        [13, 50],
      ]);
      await usage().setDay(teamId, day0);
      expect(await seen()).toEqual(late);
      await usage().deleteHours(teamId, { beforeMs: day0 + day, limit: 100 });
      expect(accepted(await hours(teamId))).toEqual([
        [24, 1_000],
        [48, 10_000],
      ]);
    });

    test("old hours and days are removed a few at a time, and no others", async () => {
      const [teamId, other] = [newPrefix(), newPrefix()];
      const days = [0, 1, 2];
      for (const team of [teamId, other]) {
        await usage().recordHours(
          days.flatMap((n) =>
            ["k1", "k2"].map((key) =>
              usageHourOf({
                teamId: team,
                keyId: `${team}${key}`,
                startTimeMs: day0 + n * day,
                acceptedCount: 1,
              }),
            ),
          ),
        );
        for (const n of days) await usage().setDay(team, day0 + n * day);
      }
      const old = { beforeMs: day0 + 2 * day, limit: 3 };
      for (const remove of [usage().deleteHours, usage().deleteDays]) {
        expect([await remove(teamId, old), await remove(teamId, old), await remove(teamId, old)]).toEqual([
          3, 1, 0,
        ]);
        expect(await remove(teamId, { ...old, limit: 0 })).toBe(0);
      }
      expect(accepted(await hours(teamId))).toEqual([[48, 2]]);
      expect(accepted(await usage().days(all(teamId)))).toEqual([[48, 2]]);
      expect((await hours(other)).length).toBe(3);
      expect((await usage().days(all(other))).length).toBe(3);
    });

    test("teams come in the order of their ids, also those that have only days or only hours", async () => {
      const prefix = newPrefix();
      const [a, b, c] = [`${prefix}a`, `${prefix}b`, `${prefix}c`] as const;
      await usage().recordHours([
        usageHourOf({ teamId: c, keyId: "kc", limitedCount: 1 }),
        usageHourOf({ teamId: a, keyId: "ka", acceptedCount: 1 }),
      ]);
      await usage().recordHours([usageHourOf({ teamId: b, keyId: "kb", acceptedCount: 1 })]);
      await usage().setDay(b, day0);
      await usage().deleteHours(b, { beforeMs: day0 + day, limit: 10 });
      expect(await usage().teamAfter(prefix)).toBe(a);
      expect(await usage().teamAfter(a)).toBe(b);
      expect(await usage().teamAfter(b)).toBe(c);
      const last = await usage().teamAfter(`${prefix}d`);
      expect(last?.startsWith(prefix) ?? false).toBe(false);
    });

    test("a count that is no whole number from 0 is refused, and nothing of its write is wrong", async () => {
      const teamId = newPrefix();
      const wrong = [usageHourOf({ teamId, appMs: 0.5 })];
      await expect(usage().recordHours(wrong)).rejects.toMatchObject({ reason: "INTERNAL" });
      expect(await hours(teamId)).toEqual([]);
    });
  });
}
