import type { Clock, Timers } from "#src/base/clock.ts";
import type { VirtualTime } from "./virtual-time.ts";

/**
 * A machine with its own clocks, on which one process runs at a time. A stopped process (SIGSTOP)
 * runs no code and no timer while its clocks go on; what reaches it waits until it continues.
 */
export interface Machine {
  readonly clock: Clock;
  /** Of the process that runs now: they die with it. */
  timers(): Timers;
  /** Which process runs now: counted from 0, and one higher after every crash. */
  process(): number;
  /** Runs now, or when the process continues; never where that process has crashed. */
  deliver(process: number, run: () => void): void;
  freeze(): void;
  thaw(): void;
  crash(): void;
  stepWall(ms: number): void;
}

export function createMachine(
  time: VirtualTime,
  { rate, startMs, timerErrorMs }: { rate: number; startMs: number; timerErrorMs: () => number },
): Machine {
  let process = 0;
  let frozen = false;
  let waiting: (() => void)[] = [];
  let wallMs = 1_700_000_000_000;

  const clock: Clock = {
    monotonicMs: () => startMs + time.now() * rate,
    unixMs: () => wallMs + time.now() * rate,
  };

  function deliver(to: number, run: () => void): void {
    if (to !== process) return;
    if (frozen) waiting.push(run);
    else run();
  }

  return {
    clock,
    timers() {
      const own = process;
      return {
        after(ms, run) {
          const event = time.at(time.now() + Math.max(0, ms + timerErrorMs()) / rate, () =>
            // A process that was stopped finds out only now whether the timer was cancelled.
            deliver(own, () => !event.cancelled && run()),
          );
          return {
            cancel() {
              event.cancelled = true;
            },
          };
        },
      };
    },
    process: () => process,
    deliver,
    freeze() {
      frozen = true;
    },
    thaw() {
      frozen = false;
      const own = process;
      for (const run of waiting.splice(0)) time.at(time.now(), () => deliver(own, run));
    },
    crash() {
      process += 1;
      frozen = false;
      waiting = [];
    },
    stepWall(ms) {
      wallMs += ms;
    },
  };
}
