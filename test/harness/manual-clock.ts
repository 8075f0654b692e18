import type { Clock, Timers } from "#src/base/clock.ts";

/** A clock that stands still until a test moves it. Its timers wait until then. */
export interface ManualClock extends Clock, Timers {
  /** Then calls each timer whose time has come, in their order; one that it starts waits. */
  advance(ms: number): void;
  /** Steps only the wall clock, as an operator or NTP would. */
  stepWall(ms: number): void;
  /** Sets only the monotonic clock. Can set it back, which a real one never does. */
  setMonotonic(ms: number): void;
  /** How many timers wait. */
  waiting(): number;
}

export function createManualClock(start = { monotonicMs: 0, unixMs: 1_700_000_000_000 }): ManualClock {
  let { monotonicMs, unixMs } = start;
  const timers = new Set<{ readonly atMs: number; readonly run: () => void }>();
  return {
    monotonicMs: () => monotonicMs,
    unixMs: () => unixMs,
    after(ms, run) {
      const timer = { atMs: monotonicMs + ms, run };
      timers.add(timer);
      return { cancel: () => void timers.delete(timer) };
    },
    advance(ms) {
      monotonicMs += ms;
      unixMs += ms;
      if (timers.size === 0) return;
      const due = [...timers].filter(({ atMs }) => atMs <= monotonicMs).sort((a, b) => a.atMs - b.atMs);
      for (const timer of due) if (timers.delete(timer)) timer.run();
    },
    stepWall(ms) {
      unixMs += ms;
    },
    setMonotonic(ms) {
      monotonicMs = ms;
    },
    waiting: () => timers.size,
  };
}
