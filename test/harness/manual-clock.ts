import type { Clock } from "#src/clock.ts";

/** A clock that stands still until a test moves it. */
export interface ManualClock extends Clock {
  advance(ms: number): void;
  /** Steps only the wall clock, as an operator or NTP would. */
  stepWall(ms: number): void;
  /** Sets only the monotonic clock. Can set it back, which a real one never does. */
  setMonotonic(ms: number): void;
}

export function createManualClock(start = { monotonicMs: 0, unixMs: 1_700_000_000_000 }): ManualClock {
  let { monotonicMs, unixMs } = start;
  return {
    monotonicMs: () => monotonicMs,
    unixMs: () => unixMs,
    advance(ms) {
      monotonicMs += ms;
      unixMs += ms;
    },
    stepWall(ms) {
      unixMs += ms;
    },
    setMonotonic(ms) {
      monotonicMs = ms;
    },
  };
}
