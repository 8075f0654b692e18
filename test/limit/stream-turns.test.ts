import { describe, expect, test } from "vitest";
import { StreamTurns } from "#src/limit/stream-turns.ts";

/** Turns of an event loop, and a clock, that the test moves. */
function loop() {
  let nowMs = 0;
  let deferred: (() => void)[] = [];
  const turns = new StreamTurns({ monotonicMs: () => nowMs, unixMs: () => 0 }, (work) => {
    deferred.push(work);
  });
  return {
    turns,
    pass(ms: number) {
      nowMs += ms;
    },
    /** One turn: what was deferred before it. Returns how long that took. */
    turn() {
      const fromMs = nowMs;
      const calls = deferred;
      deferred = [];
      for (const call of calls) call();
      return nowMs - fromMs;
    },
    waits: () => deferred.length > 0,
  };
}

/** Far more than fits into a turn. A test of what would never end ends here. */
const stepsMax = 10_000;

/** A stream that is always ready, and works for as long as it may, in steps of this time. */
function busyStream({ turns, pass }: ReturnType<typeof loop>, stepMs: number) {
  const served: number[] = [];
  let turn = 0;
  const work = () => {
    served.push(turn);
    let steps = 0;
    do {
      pass(stepMs);
      steps += 1;
      if (steps > stepsMax) throw new Error("a part of a turn does not end");
    } while (turns.mayGoOn());
    turns.ask(work);
  };
  turns.ask(work);
  return {
    served,
    next() {
      turn += 1;
    },
  };
}

describe.each([1, 4, 64])("%i streams that are always ready", (count) => {
  test("take at most 10 ms of a turn, and each is served at least every second turn", () => {
    const each = loop();
    const streams = Array.from({ length: count }, () => busyStream(each, 0.005));
    for (let turn = 0; turn < 100; turn++) {
      // One that has begun may end its part, and the questions before a look at the clock.
      expect(each.turn()).toBeLessThanOrEqual(10);
      for (const stream of streams) stream.next();
    }
    for (const { served } of streams) {
      expect(served.every((turn, n) => turn - (served[n - 1] ?? -1) <= 2)).toBe(true);
      expect(served.at(-1)).toBeGreaterThanOrEqual(98);
    }
  });
});

test("streams that do not fit into a turn come first in the next, in the order in which they asked", () => {
  const { turns, turn, pass, waits } = loop();
  const served: number[] = [];
  for (let n = 0; n < 5; n++) {
    turns.ask(() => {
      served.push(n);
      pass(4);
    });
  }
  turn();
  expect(served).toEqual([0, 1]);
  turns.ask(() => served.push(5));
  turn();
  expect(served).toEqual([0, 1, 2, 3]);
  turn();
  expect(served).toEqual([0, 1, 2, 3, 4, 5]);
  expect(waits()).toBe(false);
});

test("reads of apps end for this turn after some time, and go on in the next", () => {
  const { turns, turn, pass } = loop();
  const readsInTurn = () => {
    let reads = 0;
    while (reads < stepsMax && turns.mayRead()) {
      reads += 1;
      pass(0.01);
    }
    return reads;
  };
  for (let n = 0; n < 3; n++) {
    const reads = readsInTurn();
    expect(reads).toBeGreaterThan(300);
    expect(reads).toBeLessThan(450);
    // What was read asks for a turn.
    turns.ask(() => {});
    turn();
  }
});
