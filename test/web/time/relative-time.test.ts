import { expect, test } from "vitest";
import { relativeTime, timeUntil } from "../../../web/time/relative-time.ts";

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

test.each([
  [0, "just now"],
  [second - 1, "just now"],
  [second, "1 second ago"],
  [59 * second, "59 seconds ago"],
  [minute, "1 minute ago"],
  [hour - 1, "59 minutes ago"],
  [hour, "1 hour ago"],
  [day - 1, "23 hours ago"],
  [3 * day, "3 days ago"],
  [30 * day, "1 month ago"],
  [364 * day, "11 months ago"],
  [366 * day, "1 year ago"],
  [800 * day, "2 years ago"],
])("%i ms ago is %s", (passedMs, words) => {
  expect(relativeTime(1_700_000_000_000 - passedMs, 1_700_000_000_000)).toBe(words);
});

test("a time ahead of this clock is just now, not in the future", () => {
  expect(relativeTime(5 * minute, 0)).toBe("just now");
});

test("how long it is until a time is rounded, and a time that has passed is just now", () => {
  expect(timeUntil(7 * day - 1, 0)).toBe("in 7 days");
  expect(timeUntil(6 * day + 11 * hour, 0)).toBe("in 6 days");
  expect(timeUntil(day - 1, 0)).toBe("in 1 day");
  expect(timeUntil(hour - 1, 0)).toBe("in 1 hour");
  expect(timeUntil(400 * day - 1, 0)).toBe("in 1 year");
  expect(timeUntil(9 * day + hour, 0)).toBe("in 9 days");
  expect(timeUntil(365 * day, 0)).toBe("in 365 days");
  expect(timeUntil(800 * day, 0)).toBe("in 2 years");
  expect(timeUntil(hour, 0)).toBe("in 1 hour");
  expect(timeUntil(0, hour)).toBe("just now");
});
