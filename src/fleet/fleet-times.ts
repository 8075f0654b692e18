/** The times of the protocol. All instances of one fleet must use equal ones. */
export interface FleetTimes {
  /** How long an instance may admit after it sent its last successful heartbeat. */
  readonly leaseMs: number;
  /** The pause from one heartbeat to the next. */
  readonly beatMs: number;
  /** By how much the rate of a monotonic clock may be wrong: 0.01 is 1 %. */
  readonly clockRateError: number;
  /** How long a departed instance still counts for shares, and a new one has none. */
  readonly standingMs: number;
}

/** The times of the contract; `docs` and the tests of real processes use them as they are. */
export const fleetTimes: FleetTimes = {
  leaseMs: 5_000,
  beatMs: 250,
  clockRateError: 0.01,
  standingMs: 60_000,
};

/** Added to the wait for a lapse, for what clocks round. */
const lapseMarginMs = 5;

/**
 * After this time on its own clock, an instance that saw a record unchanged knows that the record's
 * lease is over on the clock of its owner, however wrong both rates are.
 */
export function lapseMsOf({ leaseMs, clockRateError }: FleetTimes): number {
  return (leaseMs * (1 + clockRateError)) / (1 - clockRateError) + lapseMarginMs;
}
