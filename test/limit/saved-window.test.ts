import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { readWindow, writeWindow } from "#src/limit/saved-window.ts";

const moments = (count: number) => Array.from({ length: count }, (_, n) => [61_439_999 - n, 1]).flat();

const windows = fc.record({
  savedUnixMs: fc.nat(),
  logs: fc.uniqueArray(
    fc.record({
      id: fc.string({ minLength: 1, unit: "grapheme" }),
      moments: fc
        .uniqueArray(fc.record({ ageTicks: fc.nat(), count: fc.integer({ min: 1, max: 100 }) }), {
          minLength: 1,
          selector: ({ ageTicks }) => ageTicks,
        })
        .map((each) => each.sort((a, b) => b.ageTicks - a.ageTicks))
        .map((each) => each.flatMap(({ ageTicks, count }) => [ageTicks, count])),
    }),
    { minLength: 1, selector: ({ id }) => id },
  ),
});

test("a window that was written is read as it was", () => {
  fc.assert(
    fc.property(windows, (window) => {
      const { pages, leftOut } = writeWindow(window);
      expect(leftOut).toBe(0);
      expect(readWindow(pages)).toEqual(window);
    }),
  );
});

test("an empty window takes no page, and no page is an empty window", () => {
  expect(writeWindow({ savedUnixMs: 5, logs: [] })).toEqual({ pages: [], leftOut: 0 });
  expect(readWindow([])).toEqual({ savedUnixMs: 0, logs: [] });
});

test("a large window is cut into pages within the bounds, and is read whole", () => {
  const logs = Array.from({ length: 40 }, (_, n) => ({ id: `team-${n}`, moments: moments(20_000) }));
  const { pages, leftOut } = writeWindow({ savedUnixMs: 1, logs });
  expect(leftOut).toBe(0);
  expect(pages.length).toBeGreaterThan(1);
  for (const page of pages) expect(page.length).toBeLessThanOrEqual(bounds.savedPageCharactersMax);
  const read = [...readWindow(pages).logs];
  expect(read.map(({ id }) => id)).toEqual(logs.map(({ id }) => id));
  expect(read.every(({ moments: { length } }) => length === 40_000)).toBe(true);
});

test("the fullest log that a plan allows has room on a page", () => {
  const logs = [{ id: "a".repeat(63), moments: moments(bounds.savedRequestsPerLogMax) }];
  const { pages, leftOut } = writeWindow({ savedUnixMs: Number.MAX_SAFE_INTEGER, logs });
  expect([pages.length, leftOut]).toEqual([1, 0]);
  expect(pages[0]?.length).toBeLessThanOrEqual(bounds.savedPageCharactersMax);
});

test("past the bound the logs that accepted nothing for longest are left out, and the rest fits", () => {
  const full = moments(bounds.savedRequestsPerLogMax);
  const logs = Array.from({ length: 40 }, (_, n) => ({ id: `team-${n}`, moments: full }));
  const { pages, leftOut } = writeWindow({ savedUnixMs: 1, logs });
  expect(pages.length).toBe(bounds.savedPagesMax);
  for (const page of pages) expect(page.length).toBeLessThanOrEqual(bounds.savedPageCharactersMax);
  const kept = [...readWindow(pages).logs].map(({ id }) => id);
  expect(kept).toEqual(logs.slice(0, 40 - leftOut).map(({ id }) => id));
  expect(kept.length).toBeGreaterThanOrEqual(bounds.savedPagesMax);
});

test("of the pages of several stops, those of the last one are read, also of a fleet of an older version", () => {
  const pagesOf = (savedUnixMs: number, ...ids: string[]) =>
    writeWindow({ savedUnixMs, logs: ids.map((id) => ({ id, moments: [5, 1] })) }).pages;
  const older = pagesOf(9, "a", "b").map((page) => page.replace('"logs"', '"isShared":true,"logs"'));
  const read = readWindow([...pagesOf(7, "a", "gone"), ...older, ...pagesOf(8, "a")]);
  expect(read.savedUnixMs).toBe(9);
  expect([...read.logs].map(({ id }) => id)).toEqual(["a", "b"]);
});

describe("a damaged page throws:", () => {
  const page = (logs: unknown) => [JSON.stringify({ savedUnixMs: 1, logs })];
  test.each<[string, string[]]>([
    ["no JSON", ["{"]],
    ["another shape", ["[]"]],
    ["a negative age", page([{ id: "a", moments: [-1, 1] }])],
    ["a fraction", page([{ id: "a", moments: [1, 0.5] }])],
    ["an age without a count", page([{ id: "a", moments: [3, 1, 2] }])],
    ["ages out of order", page([{ id: "a", moments: [1, 1, 2, 1] }])],
    ["more requests than any plan allows", page([{ id: "a", moments: [1, 100_001] }])],
    [
      "one id twice",
      page([
        { id: "a", moments: [1, 1] },
        { id: "a", moments: [1, 1] },
      ]),
    ],
  ])("%s", (_, pages) => {
    expect(() => readWindow(pages)).toThrow();
  });
});
