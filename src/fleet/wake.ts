import type { Timers } from "../base/clock.ts";

/** A pause that may end early. */
export interface Wake {
  /** Resolves after `ms`, or at the next `now`. One at a time. */
  within(ms: number): Promise<void>;
  /** Ends the pause, if there is one. */
  now(): void;
}

export function createWake(timers: Timers): Wake {
  let end = () => {};
  return {
    within: (ms) =>
      new Promise((resolve) => {
        const timer = timers.after(Math.max(0, ms), resolve);
        end = () => {
          timer.cancel();
          resolve();
        };
      }),
    now: () => end(),
  };
}
