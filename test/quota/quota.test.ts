import { expect, test } from "vitest";
import { periodOf } from "../../src/quota/quota.ts";

const at = (text: string) => Date.parse(text);

test.each([
  ["2026-01-31T23:59:59.999Z", "2026-01", 31],
  ["2026-02-01T00:00:00Z", "2026-02", 28],
  ["2028-02-29T12:00:00Z", "2028-02", 29],
  ["2026-04-30T23:59:59.999Z", "2026-04", 30],
  ["2026-12-31T23:59:59.999Z", "2026-12", 31],
])("the month of %s is %s, and has %i days", (text, id, days) => {
  const { startMs, endMs, ...found } = periodOf("month", at(text));
  expect(found).toEqual({ id });
  expect(startMs).toBe(at(`${id}-01T00:00:00Z`));
  expect(endMs - startMs).toBe(days * 86_400_000);
});

test.each([
  ["2026-11-29T00:00:00Z", "2026-11-29", "2026-11-30T00:00:00Z"],
  ["2026-12-31T23:59:59.999Z", "2026-12-31", "2027-01-01T00:00:00Z"],
  ["2028-02-28T23:59:59.999Z", "2028-02-28", "2028-02-29T00:00:00Z"],
])("the day of %s is %s, and ends at %s", (text, id, end) => {
  expect(periodOf("day", at(text))).toEqual({ id, startMs: at(`${id}T00:00:00Z`), endMs: at(end) });
});

test("each millisecond round the turn of a month lies in one period", () => {
  const turn = at("2026-03-01T00:00:00Z");
  expect(periodOf("month", turn - 1).endMs).toBe(turn);
  expect(periodOf("month", turn).startMs).toBe(turn);
});
