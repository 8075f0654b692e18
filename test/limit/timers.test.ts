import { expect, test } from "vitest";
import { startLoopAwareTimeout } from "#src/limit/timers.ts";
import { createManualClock } from "../harness/manual-clock.ts";

/** Timers whose turns of the event loop the test makes. */
function turns() {
  const clock = createManualClock();
  let waiting: { atMs: number; run: () => void }[] = [];
  let soon: (() => void)[] = [];
  const timers = {
    after(ms: number, run: () => void) {
      const one = { atMs: clock.monotonicMs() + ms, run };
      waiting.push(one);
      return {
        cancel() {
          waiting = waiting.filter((each) => each !== one);
        },
      };
    },
    soon: (run: () => void) => void soon.push(run),
  };
  return {
    clock,
    timers,
    /** One turn, which takes so long. */
    turn(ms: number) {
      clock.advance(ms);
      const due = waiting.filter(({ atMs }) => atMs <= clock.monotonicMs());
      waiting = waiting.filter((each) => !due.includes(each));
      for (const { run } of due) run();
      const now = soon;
      soon = [];
      for (const run of now) run();
    },
  };
}

function timeoutOf(startMs = 0) {
  const { clock, timers, turn } = turns();
  let ends = 0;
  const over = () => {
    ends += 1;
  };
  const timeout = startLoopAwareTimeout({ clock, timers }, { msMax: 100, startMs, over });
  return { clock, turn, timeout, ends: () => ends };
}

test("an idle process waits for as long as it says, and is told once", () => {
  const { turn, ends, timeout, clock } = timeoutOf();
  expect(timeout.endsMs() - clock.monotonicMs()).toBe(100);
  for (let ms = 0; ms < 99; ms++) turn(1);
  expect(ends()).toBe(0);
  turn(1);
  expect(ends()).toBe(1);
  for (let ms = 0; ms < 200; ms++) turn(1);
  expect(ends()).toBe(1);
});

test("a turn counts as one step, however long it takes: an answer is read before the next", () => {
  const { turn, ends } = timeoutOf();
  for (let slow = 0; slow < 4; slow++) turn(1_000);
  expect(ends()).toBe(0);
  turn(1_000);
  expect(ends()).toBe(1);
});

test("it never ends before the moment that it named", () => {
  const { turn, ends, timeout, clock } = timeoutOf(50);
  let namedMs = timeout.endsMs();
  expect(namedMs - clock.monotonicMs()).toBe(150);
  for (const ms of [30, 70, 5, 90, 3, 1, 40, 20, 20, 20]) {
    if (ends() === 0) namedMs = Math.max(namedMs, timeout.endsMs());
    turn(ms);
    if (ends() > 0) expect(clock.monotonicMs()).toBeGreaterThanOrEqual(namedMs);
  }
  expect(ends()).toBe(1);
});

test("what was cancelled is never told", () => {
  const { turn, ends, timeout } = timeoutOf();
  turn(50);
  timeout.cancel();
  for (let ms = 0; ms < 10; ms++) turn(100);
  expect(ends()).toBe(0);
});
