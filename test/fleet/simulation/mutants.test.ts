import { describe, expect, test } from "vitest";
import { mutants, unmutated } from "./mutants.ts";
import { playSchedule } from "./schedule.ts";

/** So many schedules find each of these errors at least ten times. The rarer ones have a story. */
const schedulesMax = 300;
const common = [
  "no barrier at all",
  "key reads that may be stale",
  "a second revoke returns early",
  "serving without a lease",
  "a silent peer is assumed dead before its lease is over",
  "a lapse counted from the first heartbeat",
  "the record of a silent peer is removed before its lease is over",
  "the push comes before the key's write",
  "an acknowledgement before the change is applied",
  "a lifetime that a read makes longer",
  "a write that goes around the one port",
  "a rotation that ends the old key around the one port",
  "a rotation that ends the old key as a change that grants",
] as const satisfies readonly (keyof typeof mutants)[];

describe("random schedules find an error that is common", () => {
  test.each(common)("%s", async (name) => {
    let seed = 1;
    while (seed <= schedulesMax && (await playSchedule(seed, mutants[name])).violations.length === 0)
      seed += 1;
    expect(seed).toBeLessThanOrEqual(schedulesMax);
  });
});

test("the seed alone decides a schedule, so that a failure can be replayed", async () => {
  const [once, again] = [await playSchedule(718, unmutated), await playSchedule(718, unmutated)];
  expect(again).toEqual(once);
  expect(once.counts.admitted).toBeGreaterThan(0);
  expect((await playSchedule(719, unmutated)).counts).not.toEqual(once.counts);
});
