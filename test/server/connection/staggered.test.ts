import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createStaggered } from "#src/server/connection/staggered.ts";

test("a turn runs at most as many tasks as it may, in order, and leaves the others to the next turns", async () => {
  const done: number[] = [];
  const stagger = createStaggered(2);
  for (let at = 1; at <= 5; at += 1) stagger(() => void done.push(at));
  expect(done).toEqual([]);
  const seen: number[] = [];
  while (done.length < 5) {
    await nextTurn();
    seen.push(done.length);
  }
  expect([done, seen]).toEqual([
    [1, 2, 3, 4, 5],
    [1, 3, 5],
  ]);
});
