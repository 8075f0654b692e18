import type { Clock } from "../../base/clock.ts";
import type { LimitTimers } from "./limit-timers.ts";

/** A wait for an answer that counts only time in which this process could have read it. */
export interface Patience {
  /** It does not end before this moment of the monotonic clock. */
  endsMs(): number;
  cancel(): void;
}

/**
 * Calls `over` once, after `msMax` of time in which the event loop turns, and never before
 * `startMs` more have passed. A turn that takes long, because there is much to do, counts as one
 * step: an answer that came meanwhile is read before the next one.
 */
export function createPatience(
  { clock, timers, msMax }: { readonly clock: Clock; readonly timers: LimitTimers; readonly msMax: number },
  { startMs, over }: { readonly startMs: number; readonly over: () => void },
): Patience {
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
    endsMs: () => Math.max(dueMs, clock.monotonicMs()) + Math.max(0, left - 1) * stepMs,
    cancel: () => timer.cancel(),
  };
}

const steps = 5;
