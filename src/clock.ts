/**
 * The two clocks. Durations and order come from `monotonicMs`, which no step of the wall clock touches;
 * `unixMs` is for what people and headers read. Time is an argument everywhere else, so that tests own it.
 */
export interface Clock {
  /** Milliseconds, with fractions, from an arbitrary start; never steps back. */
  monotonicMs(): number;
  /** Milliseconds since the Unix epoch by the wall clock; may step either way. */
  unixMs(): number;
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  unixMs: () => Date.now(),
};
