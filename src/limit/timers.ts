import type { Clock } from "../base/clock.ts";

/** Starts a function later. All waits of the shared limit go through it: tests control them. */
export interface LimitTimers {
  /** Calls `run` once after `ms`, unless it is cancelled before. */
  after(ms: number, run: () => void): { cancel(): void };
  /** Calls `run` once, when everything that has arrived by now is read. */
  soon(run: () => void): void;
}

export const systemLimitTimers: LimitTimers = {
  after(ms, run) {
    const timeout = setTimeout(run, ms).unref();
    return { cancel: () => clearTimeout(timeout) };
  },
  soon: (run) => void setImmediate(run),
};

/**
 * A timeout that counts only time in which this process could have read the answer. It waits
 * `startMs`, then for some steps that add up to `msMax`, and calls `over` once. A turn of the event
 * loop that takes long, because there is much to do, counts as one step: what has arrived meanwhile
 * is read before the next step.
 */
export function startLoopAwareTimeout(
  { clock, timers }: { readonly clock: Clock; readonly timers: LimitTimers },
  { msMax, startMs, over }: { readonly msMax: number; readonly startMs: number; readonly over: () => void },
) {
  const stepMs = msMax / steps;
  let left = steps;
  let dueMs = 0;
  let timer = wait(startMs + stepMs);

  function wait(ms: number) {
    dueMs = clock.monotonicMs() + ms;
    return timers.after(ms, step);
  }

  function step(): void {
    left -= 1;
    if (left > 0) timer = wait(stepMs);
    // What has arrived by now is read first.
    else timers.soon(over);
  }

  return {
    /** It does not end before this time of the monotonic clock. */
    endsMs: () => Math.max(dueMs, clock.monotonicMs()) + Math.max(0, left - 1) * stepMs,
    cancel: () => timer.cancel(),
  };
}

const steps = 5;
