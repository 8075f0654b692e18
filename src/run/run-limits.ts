import type { Clock } from "../clock.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import type { RunLimits } from "./backend-runner.ts";
import type { Run } from "./runner.ts";

/** The limits of one run, and a way to end it. The first reason to end becomes its refusal. */
export interface RunningLimits extends RunLimits {
  /** Ends the run with this refusal, unless it has ended already. */
  end(refusal: Refusal): void;
  /** Call it when the run is over: nothing is ended after that. */
  stop(): void;
}

/** Starts the time of the app, and ends the run when its caller is gone. */
export function startLimits(clock: Clock, run: Run): RunningLimits {
  const limits = new Limits(clock, run.app.timeoutMs);
  run.whenGone((refusal) => limits.end(refusal));
  return limits;
}

class Limits implements RunningLimits {
  readonly deadlineMs: number;
  readonly #timer: NodeJS.Timeout;
  #refusal: Refusal | undefined;
  #isOver = false;
  #onOver: ((refusal: Refusal) => void) | undefined;

  constructor(clock: Clock, timeoutMs: number) {
    this.deadlineMs = clock.monotonicMs() + timeoutMs;
    this.#timer = setTimeout(() => this.end(timedOut(timeoutMs)), timeoutMs);
  }

  get refusal(): Refusal | undefined {
    return this.#refusal;
  }

  whenOver(end: (refusal: Refusal) => void): void {
    if (this.#refusal !== undefined) end(this.#refusal);
    else this.#onOver = end;
  }

  end(refusal: Refusal): void {
    if (this.#isOver || this.#refusal !== undefined) return;
    this.#refusal = refusal;
    this.#onOver?.(refusal);
  }

  stop(): void {
    this.#isOver = true;
    this.#onOver = undefined;
    clearTimeout(this.#timer);
  }
}

function timedOut(timeoutMs: number): Refusal {
  return fail("APP_TIMEOUT", { cause: new Error(`No answer within ${timeoutMs} ms.`), mayHaveRun: true });
}
