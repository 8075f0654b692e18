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
