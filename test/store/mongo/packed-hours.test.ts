import fc from "fast-check";
import { expect, test } from "vitest";
import { addPacked, packed } from "#src/store/mongo/packed-hours.ts";
import { UsageSums } from "#src/store/mongo/usage-fields.ts";
import type { UsageSum } from "#src/usage/usage-store.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const ofDayMs = 19_700 * dayMs;

const count = fc.oneof(
  fc.integer({ min: 0, max: 300 }),
  fc.maxSafeInteger().map(Math.abs),
  fc.nat({ max: 52 }).map((bits) => 2 ** bits),
  fc.nat({ max: 52 }).map((bits) => 2 ** bits - 1),
);
const counts = fc.record({ acceptedCount: count, limitedCount: count, failedCount: count, appMs: count });
const hours = fc
  .uniqueArray(fc.tuple(fc.nat({ max: 23 }), counts), { selector: ([hour]) => hour })
  .map((each) =>
    each.map(([hour, sums]): UsageSum => ({ startTimeMs: ofDayMs + hour * hourMs, keyId: "k", ...sums })),
  );

const total = ({ acceptedCount, limitedCount, failedCount, appMs }: UsageSum) =>
  acceptedCount + limitedCount + failedCount + appMs;
const byTime = (sums: readonly UsageSum[]) => sums.toSorted((a, b) => a.startTimeMs - b.startTimeMs);

function unpacked(sums: readonly UsageSum[], time: { fromMs: number; untilMs: number }): UsageSum[] {
  const found = new UsageSums();
  addPacked(found, packed(sums), ofDayMs, { ...time, keyId: "k" });
  return byTime(found.all());
}

test("the hours of a day come out of their bytes as they went in, up to 2⁵³ − 1 and within the time", () => {
  const border = fc.integer({ min: -1, max: 25 }).map((hour) => ofDayMs + hour * hourMs);
  fc.assert(
    fc.property(hours, border, border, (sums, fromMs, untilMs) => {
      const within = ({ startTimeMs }: UsageSum) => startTimeMs >= fromMs && startTimeMs < untilMs;
      const expected = byTime(sums).filter((sum) => within(sum) && total(sum) > 0);
      expect(unpacked(sums, { fromMs, untilMs })).toEqual(expected);
    }),
  );
});

test("a day of many requests is packed in 192 bytes, and an empty one in 96", () => {
  const busy = Array.from({ length: 24 }, (_, hour) => ({
    ...{ startTimeMs: ofDayMs + hour * hourMs, keyId: "k" },
    ...{ acceptedCount: 10_000, limitedCount: 1_000, failedCount: 100, appMs: 1_000_000 },
  }));
  expect(packed(busy).length()).toBe(24 * (2 + 2 + 1 + 3));
  expect(packed([]).length()).toBe(96);
});
