import type { Clock } from "../clock.ts";
import { fail, Refusal } from "../error.ts";
import type { RunLimits } from "./backend-runner.ts";
import type { Run } from "./runner.ts";

/** The limits of one run, and the means to end it. Whatever ends it first is the refusal that its caller gets. */
export interface RunningLimits extends RunLimits {
  /** Ends the run with this refusal, unless it is ended already. */
  end(refusal: Refusal): void;
  /** To be called when the run is over: forgets the timer and the caller's signal. */
  stop(): void;
}

/** Starts to count the app's timeout and to listen for the caller. */
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

/** Why a run ends whose signal was aborted: the refusal that was given as the reason, or that its caller left. */
export function cancelled(signal: AbortSignal): Refusal {
  const reason: unknown = signal.reason;
  return reason instanceof Refusal ? reason : fail("CANCELLED", { cause: reason, mayHaveRun: true });
}

function timedOut(timeoutMs: number): Refusal {
  return fail("APP_TIMEOUT", { cause: new Error(`No answer within ${timeoutMs} ms.`), mayHaveRun: true });
}
