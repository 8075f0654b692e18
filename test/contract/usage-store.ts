import { describe, expect, test } from "vitest";
import type { UsageRecord, UsageSum } from "#src/usage/usage-store.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

const hour = 3_600_000;
const day = 24 * hour;
/** A midnight in UTC. */
const day0 = 19_700 * day;

/** A key's counts of the hour from 10:00 on. */
function usageHourOf(facts: Partial<UsageRecord> & Pick<UsageRecord, "teamId">): UsageRecord {
  return {
    keyId: "k1",
    startTimeMs: day0 + 10 * hour,
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
    const hours = (teamId: string) => usage().hours(all(teamId));
    let number = 0;
    const add = (added: readonly UsageRecord[], incarnation = "i1") =>
      usage().add({ incarnation, number: ++number, hours: added });

    test("each count is added to that of its hour and its day, whoever has counted it", async () => {
      const teamId = newPrefix();
      const counts = { acceptedCount: 7, limitedCount: 3, failedCount: 2, appMs: 456 };
      const one = usageHourOf({ teamId, ...counts });
      const sum = { startTimeMs: one.startTimeMs, keyId: "", ...counts };
      await add([one]);
      expect(await hours(teamId)).toEqual([sum]);
      await add([usageHourOf({ teamId, acceptedCount: 1, appMs: 1 })], "i2");
      expect(await hours(teamId)).toEqual([{ ...sum, acceptedCount: 8, appMs: 457 }]);
      await add([usageHourOf({ teamId, failedCount: 4 })]);
      expect(await hours(teamId)).toEqual([{ ...sum, acceptedCount: 8, failedCount: 6, appMs: 457 }]);
      expect(await usage().days(all(teamId))).toEqual([
        { ...sum, startTimeMs: day0, acceptedCount: 8, failedCount: 6, appMs: 457 },
      ]);
      await add([]);
    });

    test("keys are summed, and each hour and day stands for itself", async () => {
      const [teamId, other] = [newPrefix(), newPrefix()];
      const one = (facts: Partial<UsageRecord>) => usageHourOf({ teamId, ...facts });
      await add([
        one({ acceptedCount: 1 }),
        one({ acceptedCount: 100, keyId: "k2" }),
        one({ acceptedCount: 1_000, startTimeMs: day0 + 11 * hour }),
        one({ acceptedCount: 5, startTimeMs: day0 + 24 * hour }),
        one({ acceptedCount: 6, startTimeMs: day0 }),
        usageHourOf({ teamId: other, keyId: "k3", acceptedCount: 999 }),
      ]);
      await add([one({ acceptedCount: 10 })], "i2");
      expect(accepted(await hours(teamId))).toEqual([
        [0, 6],
        [10, 111],
        [11, 1_000],
        [24, 5],
      ]);
      expect(accepted(await usage().hours({ ...all(teamId), keyId: "k2" }))).toEqual([[10, 100]]);
      expect(await usage().hours({ ...all(teamId), keyId: "k3" })).toEqual([]);
      const each = { ...all(teamId), keyIds: ["k2", "k1", "k3"] };
      expect(accepted(await usage().hours({ ...each, untilMs: day0 + 11 * hour }))).toEqual([
        [0, "k1", 6],
        [10, "k1", 11],
        [10, "k2", 100],
      ]);
      expect(await hours(newPrefix())).toEqual([]);
      const days = usage().days;
      expect(accepted(await days(all(teamId)))).toEqual([
        [0, 1_117],
        [24, 5],
      ]);
      expect(accepted(await days({ ...all(teamId), keyId: "k2" }))).toEqual([[0, 100]]);
      expect(accepted(await days(each))).toEqual([
        [0, "k1", 1_017],
        [0, "k2", 100],
        [24, "k1", 5],
      ]);
      expect(await days({ ...all(teamId), untilMs: day0 })).toEqual([]);
    });

    test("a time has its first hour and not its end", async () => {
      const teamId = newPrefix();
      await add(
        [9, 10, 11, 12].map((h) => usageHourOf({ teamId, startTimeMs: day0 + h * hour, acceptedCount: h })),
      );
      const time = { teamId, fromMs: day0 + 10 * hour, untilMs: day0 + 12 * hour };
      for (const keys of [{}, { keyId: "k1" }]) {
        expect(accepted(await usage().hours({ ...time, ...keys }))).toEqual([
          [10, 10],
          [11, 11],
        ]);
      }
      expect(accepted(await usage().hours({ ...time, keyIds: ["k1"] }))).toEqual([
        [10, "k1", 10],
        [11, "k1", 11],
      ]);
    });

    test("a day stays when its hours are gone, and gets what comes late", async () => {
      const teamId = newPrefix();
      await add([usageHourOf({ teamId, acceptedCount: 3 })]);
      expect(await usage().deleteHours(teamId, { beforeMs: day0 + day, limit: 100 })).toBe(1);
      await add([usageHourOf({ teamId, acceptedCount: 4 })]);
      expect(accepted(await hours(teamId))).toEqual([[10, 4]]);
      expect(accepted(await usage().days(all(teamId)))).toEqual([[0, 7]]);
    });

    test("old hours and days are removed a few at a time, and no others", async () => {
      const [teamId, other] = [newPrefix(), newPrefix()];
      const days = [0, 1, 2];
      for (const team of [teamId, other]) {
        await add(
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
      await add([
        usageHourOf({ teamId: c, keyId: "kc", limitedCount: 1 }),
        usageHourOf({ teamId: a, keyId: "ka", acceptedCount: 1 }),
      ]);
      await add([usageHourOf({ teamId: b, keyId: "kb", acceptedCount: 1 })]);
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
      await expect(add(wrong)).rejects.toMatchObject({ reason: "INTERNAL" });
      expect(await hours(teamId)).toEqual([]);
    });
  });
}
