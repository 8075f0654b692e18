import type { Clock } from "../clock.ts";
import { fail, Refusal } from "../refusal/refusal.ts";
import type { RunLimits } from "./backend-runner.ts";
import type { Run } from "./runner.ts";

/** The limits of one run, and a way to end it. The first reason to end becomes its refusal. */
export interface RunningLimits extends RunLimits {
  /** Ends the run with this refusal, unless it has ended already. */
  end(refusal: Refusal): void;
  /** Call it when the run is over: clears the timer and stops listening to the caller's signal. */
  stop(): void;
}

/** Starts the timer of the app's timeout and listens to the caller's signal. */
export function startLimits(clock: Clock, run: Run): RunningLimits {
  const { timeoutMs } = run.app;
  const over = new AbortController();
  const end = (refusal: Refusal) => over.abort(refusal);
  const timer = setTimeout(() => end(timedOut(timeoutMs)), timeoutMs);
  const cancel = () => end(cancelled(run.signal));
  run.signal.addEventListener("abort", cancel);
  return {
    signal: over.signal,
    deadlineMs: clock.monotonicMs() + timeoutMs,
    end,
    stop() {
      clearTimeout(timer);
      run.signal.removeEventListener("abort", cancel);
    },
  };
}

/**
 * The refusal of a run whose signal was aborted: the signal's reason if that is a refusal,
 * otherwise CANCELLED, because the caller left.
 */
export function cancelled(signal: AbortSignal): Refusal {
  const reason: unknown = signal.reason;
  return reason instanceof Refusal ? reason : fail("CANCELLED", { cause: reason, mayHaveRun: true });
}

function timedOut(timeoutMs: number): Refusal {
  return fail("APP_TIMEOUT", { cause: new Error(`No answer within ${timeoutMs} ms.`), mayHaveRun: true });
}
