import { expect, test } from "vitest";
import { Deadlines, Timed } from "#src/run/run-limits.ts";
import { createManualClock } from "../harness/manual-clock.ts";

class Named extends Timed {
  readonly #name: string;
  readonly #passed: string[];

  constructor(name: string, passed: string[]) {
    super();
    this.#name = name;
    this.#passed = passed;
  }

  override onDeadline(): void {
    this.#passed.push(this.#name);
  }
}

test("each deadline passes once, at its time and not before, whatever was added or removed around it", () => {
  const passed: string[] = [];
  const clock = createManualClock();
  const deadlines = new Deadlines(clock, clock);
  const add = (name: string, ms: number) => {
    const entry = new Named(name, passed);
    deadlines.add(entry, ms);
    return entry;
  };
  const first = add("first", 100);
  add("short", 30);
  clock.advance(10);
  add("second", 100);
  const third = add("third", 100);
  deadlines.remove(first);
  deadlines.remove(first);
  clock.advance(19);
  expect(passed).toEqual([]);
  clock.advance(1);
  expect(passed).toEqual(["short"]);
  clock.advance(79);
  expect(passed).toEqual(["short"]);
  deadlines.remove(third);
  add("fourth", 100);
  clock.advance(1);
  expect(passed).toEqual(["short", "second"]);
  clock.advance(98);
  expect(passed).toHaveLength(2);
  clock.advance(1);
  expect(passed).toEqual(["short", "second", "fourth"]);
});

test("a thousand deadlines of one timeout share one timer, and no timer is left once all have passed", () => {
  const passed: string[] = [];
  const clock = createManualClock();
  const deadlines = new Deadlines(clock, clock);
  const entries = Array.from({ length: 1_000 }, (_, n) => new Named(`${n}`, passed));
  for (const entry of entries) deadlines.add(entry, 50);
  expect(clock.waiting()).toBe(1);
  for (const entry of entries.slice(0, 999)) deadlines.remove(entry);
  expect([...deadlines]).toEqual([entries[999]]);
  clock.advance(50);
  expect(passed).toEqual(["999"]);
  expect([...deadlines]).toEqual([]);
  expect(clock.waiting()).toBe(0);
});

test("what is removed or added while deadlines pass is not called wrongly", () => {
  const passed: string[] = [];
  const clock = createManualClock();
  const deadlines = new Deadlines(clock, clock);
  const victim = new Named("victim", passed);
  const late = new Named("late", passed);
  const killer = new (class extends Timed {
    override onDeadline(): void {
      deadlines.remove(victim);
      deadlines.add(late, 50);
    }
  })();
  deadlines.add(killer, 50);
  deadlines.add(victim, 50);
  clock.advance(50);
  expect(passed).toEqual([]);
  clock.advance(50);
  expect(passed).toEqual(["late"]);
});

test("a deadline passes with its timer, also if the clock is a little behind it", () => {
  const passed: string[] = [];
  const timers = createManualClock();
  const deadlines = new Deadlines(createManualClock(), timers);
  deadlines.add(new Named("on time", passed), 50);
  timers.advance(50);
  expect(passed).toEqual(["on time"]);
  expect(timers.waiting()).toBe(0);
});
