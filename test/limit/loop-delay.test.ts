import { beforeEach, expect, test } from "vitest";
import { LoopDelay, loopDelayLimits } from "#src/limit/load-shedder.ts";
import { createManualClock, type ManualClock } from "../harness/manual-clock.ts";

const { lookMs, looksMax, lagMsMax, lateMsMin } = loopDelayLimits;

let clock: ManualClock;
let delay: LoopDelay;

beforeEach(() => {
  clock = createManualClock();
  delay = new LoopDelay(clock);
});

/** A look that comes late by so much. */
function lateBy(ms: number): number {
  clock.advance(lookMs + ms);
  return delay.look();
}

function onTime(looks: number): void {
  for (let look = 0; look < looks; look += 1) lateBy(0);
}

test("a loop that is on time, or late by what timers are, is not overloaded", () => {
  for (let look = 0; look < 1_000; look += 1) {
    lateBy(look % 10);
    expect(delay.isOverloaded()).toBe(false);
  }
  expect(delay.p99Ms()).toBeGreaterThan(0);
  expect(delay.p99Ms()).toBeLessThan(10);
});

test("a stall of 2 s overloads the loop at once, until it was on time for half a second", () => {
  onTime(100);
  lateBy(2_000);
  expect(delay.isOverloaded()).toBe(true);
  onTime(looksMax - 1);
  expect(delay.isOverloaded()).toBe(true);
  onTime(1);
  expect(delay.isOverloaded()).toBe(false);
  expect(looksMax * lookMs).toBe(500);
});

test("one stall below a second, such as a garbage collection, does not overload it", () => {
  for (const ms of [lagMsMax + 10, 500, lateMsMin - 1]) {
    lateBy(ms);
    expect(delay.p99Ms()).toBeGreaterThan(lagMsMax);
    expect(delay.isOverloaded()).toBe(false);
    onTime(looksMax);
  }
});

test("stalls that add up to a second overload it only without half a second on time between them", () => {
  lateBy(600);
  onTime(looksMax);
  lateBy(600);
  expect(delay.isOverloaded()).toBe(false);
  // With the two late ones, these fill the window.
  onTime(looksMax - 2);
  lateBy(600);
  expect(delay.isOverloaded()).toBe(true);
});

test("a loop of which every turn takes 300 ms is overloaded after a second, and stays it", () => {
  const seen = Array.from({ length: 100 }, () => {
    lateBy(300 - lookMs);
    return delay.isOverloaded();
  });
  expect(seen.indexOf(true)).toBe(3);
  expect(seen.slice(3).every((overloaded) => overloaded)).toBe(true);
});

test("turns that are late, but no later than the bound, never overload it", () => {
  for (let look = 0; look < 200; look += 1) {
    lateBy(lagMsMax);
    expect(delay.isOverloaded()).toBe(false);
  }
});

test("the p99 is the delay that one in a hundred of evenly spread requests passes", () => {
  const late = [2_000, 400, 90, 20];
  for (const ms of late) lateBy(ms);
  onTime(looksMax - late.length);
  // What each request waits that comes in a millisecond of the window.
  const waits = late.flatMap((ms) => Array.from({ length: ms }, (_, at) => ms - at));
  const arrivals = waits.length + looksMax * lookMs;
  const beyond = (p99: number) => waits.filter((wait) => wait > p99).length / arrivals;
  expect(beyond(delay.p99Ms() - 2)).toBeGreaterThan(0.01);
  expect(beyond(delay.p99Ms() + 2)).toBeLessThan(0.01);
});

test("what passed before it began is not counted", () => {
  clock.advance(5_000);
  delay.begin();
  lateBy(0);
  expect(delay.isOverloaded()).toBe(false);
});

test("a look says how many were due", () => {
  expect(lateBy(0)).toBe(1);
  expect(lateBy(5 * lookMs)).toBe(6);
  expect(delay.look()).toBe(1);
});
