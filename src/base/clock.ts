/** The time of the process: clocks, timers, and turns of the event loop. */

/**
 * The two clocks. Durations and order come from `monotonicMs`, which is safe from steps of the wall
 * clock. `unixMs` is for times that people and headers read. All other code takes a clock as an
 * argument, so that tests control the time.
 */
export interface Clock {
  /** Milliseconds with fractions since an arbitrary start. Never goes back. */
  monotonicMs(): number;
  /** Milliseconds since the Unix epoch by the wall clock. May go back or forward at once. */
  unixMs(): number;
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  unixMs: () => Date.now(),
};

/** Starts a function later. Waits go through it, so that tests control them. */
export interface Timers {
  /**
   * Calls `run` once after `ms`, unless it is cancelled before. It may be early by a millisecond,
   * and late by any time: check a clock where that matters. Does not keep the process alive.
   */
  after(ms: number, run: () => void): Timer;
}

interface Timer {
  cancel(): void;
}

export const systemTimers: Timers = {
  after(ms, run) {
    const timeout = setTimeout(run, ms).unref();
    return { cancel: () => clearTimeout(timeout) };
  },
};

/**
 * Work that is done again and again, one run at a time (a single flight). `work` must not reject,
 * or says itself what its failure is.
 */
export function createRepeatedWork(work: () => Promise<void>, everyMs: number) {
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function run(): Promise<void> {
    running ??= work().finally(() => {
      running = undefined;
    });
    await running;
  }

  return {
    /** Begins to run every `everyMs`. The timer does not keep the process alive. */
    start(): void {
      timer ??= setInterval(run, everyMs).unref();
    },
    /** Runs now. While a run is under way, waits for that one instead. */
    run,
    /** Ends the timer, and waits for the run that is under way. */
    async stop(): Promise<void> {
      clearInterval(timer);
      await running;
    },
  };
}

/**
 * Returns a function that resolves in a later turn of the event loop, in the order of the calls. In
 * one turn it resolves at most `piecesMax` of them. However many callers ask for it at once, what
 * comes in between waits for so many pieces of work.
 */
export function createOwnTurns(piecesMax: number): () => Promise<void> {
  const waiting: (() => void)[] = [];
  const next = () => {
    for (const resolve of waiting.splice(0, piecesMax)) resolve();
    if (waiting.length > 0) setImmediate(next);
  };
  return () =>
    new Promise((resolve) => {
      if (waiting.push(resolve) === 1) setImmediate(next);
    });
}

/** For a piece of work that takes some milliseconds. */
export const ownTurn: () => Promise<void> = createOwnTurns(1);
