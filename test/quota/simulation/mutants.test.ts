import { describe, expect, test } from "vitest";
import { type Mutant, mutants, unmutated } from "./mutants.ts";
import { playSchedule } from "./schedule.ts";

/** Each error is found in far fewer. */
const schedulesMax = 100;

describe("random schedules find an error", () => {
  test.each(Object.entries<Mutant>(mutants))("%s", async (_, mutant) => {
    let seed = 1;
    while (seed <= schedulesMax && (await playSchedule(seed, mutant)).violations.length === 0) seed += 1;
    expect(seed).toBeLessThanOrEqual(schedulesMax);
  });
});

test("the seed alone decides a schedule, so that a failure can be replayed", async () => {
  const [once, again] = [await playSchedule(7, unmutated), await playSchedule(7, unmutated)];
  expect(again).toEqual(once);
  expect(once.totals.admitted).toBeGreaterThan(0);
  expect((await playSchedule(8, unmutated)).totals).not.toEqual(once.totals);
});
