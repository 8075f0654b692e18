/** Starts a function later. Waits go through it, so that tests control them. */
export interface Timers {
  /**
   * Calls `run` once after `ms`, unless it is cancelled before. It may be early by a millisecond,
   * and late by any time: check a clock where that matters. Does not keep the process alive.
   */
  after(ms: number, run: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

export const systemTimers: Timers = {
  after(ms, run) {
    const timeout = setTimeout(run, ms).unref();
    return { cancel: () => clearTimeout(timeout) };
  },
};
