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
