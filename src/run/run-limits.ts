import type { Clock, Timers } from "../base/clock.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import type { RunLimits } from "./backend-runner.ts";
import { Deadlines, Timed } from "./deadlines.ts";
import type { Run } from "./runner.ts";

/** The limits of one run. The first reason to end becomes its refusal. */
export interface RunningLimits extends RunLimits {
  /** Call it once, when the run is over: nothing is ended after that. */
  stop(): void;
}

/** All runs under way. */
export interface RunningRuns {
  /** Starts the time of the run, and ends it when its caller is gone. */
  start(run: Run, timeoutMs: number): RunningLimits;
  /** Ends all runs with this refusal. Resolves when each has been stopped. */
  end(refusal: Refusal): Promise<void>;
}

export function createRunningRuns(clock: Clock, timers: Timers): RunningRuns {
  const deadlines = new Deadlines(clock, timers);
  let running = 0;
  const idle = Promise.withResolvers<void>();
  let isEnding = false;
  const stopped = (limits: Limits) => {
    deadlines.remove(limits);
    running -= 1;
    if (isEnding && running === 0) idle.resolve();
  };
  return {
    start(run, timeoutMs) {
      const limits = new Limits(timeoutMs, stopped);
      running += 1;
      deadlines.add(limits, timeoutMs);
      run.whenGone((refusal) => limits.end(refusal));
      return limits;
    },
    async end(refusal) {
      isEnding = true;
      if (running === 0) return;
      for (const limits of deadlines) if (limits instanceof Limits) limits.end(refusal);
      await idle.promise;
    },
  };
}

class Limits extends Timed implements RunningLimits {
  readonly #timeoutMs: number;
  readonly #stopped: (limits: Limits) => void;
  #refusal: Refusal | undefined;
  #isOver = false;
  #onOver: ((refusal: Refusal) => void) | undefined;

  constructor(timeoutMs: number, stopped: (limits: Limits) => void) {
    super();
    this.#timeoutMs = timeoutMs;
    this.#stopped = stopped;
  }

  get refusal(): Refusal | undefined {
    return this.#refusal;
  }

  whenOver(end: (refusal: Refusal) => void): void {
    if (this.#refusal !== undefined) end(this.#refusal);
    else this.#onOver = end;
  }

  /** Ends the run with this refusal, unless it has ended already. */
  end(refusal: Refusal): void {
    if (this.#isOver || this.#refusal !== undefined) return;
    this.#refusal = refusal;
    this.#onOver?.(refusal);
  }

  override onDeadline(): void {
    this.end(timedOut(this.#timeoutMs));
  }

  stop(): void {
    this.#isOver = true;
    this.#onOver = undefined;
    this.#stopped(this);
  }
}

function timedOut(timeoutMs: number): Refusal {
  return fail("APP_TIMEOUT", { cause: new Error(`No answer within ${timeoutMs} ms.`), mayHaveRun: true });
}
