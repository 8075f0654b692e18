/** The clock of a fleet's instance: one step after the other, at a steady pace or at once. */

import type { Clock, Timers } from "../base/clock.ts";

/**
 * Repeats `step` every `beatMs`, counted from the start of one to the start of the next, and never
 * two at once. After a step that failed, `soon` does nothing until one has succeeded.
 */
export function createHeartbeat(parts: {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly beatMs: number;
  readonly step: () => Promise<void>;
  readonly onFailed: (cause: unknown) => void;
}) {
  const { clock, timers, beatMs, step, onFailed } = parts;
  const pause = createInterruptibleSleep(timers);
  let isDue = false;
  let hasFailed = false;
  let stopped = false;
  let running: Promise<void> | undefined;

  async function run(): Promise<void> {
    let nextMs = clock.monotonicMs() + beatMs;
    while (!stopped) {
      if (!isDue) await pause.sleep(nextMs - clock.monotonicMs());
      if (stopped) return;
      isDue = false;
      nextMs = clock.monotonicMs() + beatMs;
      try {
        await step();
        hasFailed = false;
      } catch (cause) {
        isDue = false;
        hasFailed = true;
        onFailed(cause);
      }
    }
  }

  return {
    start(): void {
      running ??= run();
    },
    /** The next step is due now; if one is under way, right after it. */
    soon(): void {
      if (hasFailed) return;
      isDue = true;
      pause.wake();
    },
    /** Resolves once the last step is over. May be repeated. */
    async stop(): Promise<void> {
      stopped = true;
      pause.wake();
      await running;
    },
  };
}

/** A pause that may end early. */
export interface InterruptibleSleep {
  /** Resolves after `ms`, or at the next `wake`. One at a time. */
  sleep(ms: number): Promise<void>;
  /** Ends the pause, if there is one. */
  wake(): void;
}

export function createInterruptibleSleep(timers: Timers): InterruptibleSleep {
  let end = () => {};
  return {
    sleep: (ms) =>
      new Promise((resolve) => {
        const timer = timers.after(Math.max(0, ms), resolve);
        end = () => {
          timer.cancel();
          resolve();
        };
      }),
    wake: () => end(),
  };
}
