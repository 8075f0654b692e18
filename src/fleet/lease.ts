/** The lease of this instance, on its own clocks, and the times of the protocol. */

import type { Clock } from "../base/clock.ts";

/** When a message was sent, on both clocks. */
export interface SendTime {
  readonly monotonicMs: number;
  readonly unixMs: number;
}

/** The right of this instance to admit requests, for a time. */
export interface Lease {
  /** Valid on both clocks. A wall clock that steps forward ends it until the next extension. */
  isValid(): boolean;
  /** How long it will still be valid if it is not extended; 0 where it is not. */
  leftMs(): number;
  /** Take it before the message is sent that may extend the lease. */
  sendTime(): SendTime;
  /** The message that was sent then was answered, and all that its answer said was applied. */
  extend(sent: SendTime): void;
  /** Ends it at once. */
  lose(): void;
}

/**
 * A lease counts from when its message was sent, never from its answer: others count from later.
 * The end on the wall clock is replaced each time, because a step back would keep it for ever. It
 * catches a machine that was stopped together with its monotonic clock.
 */
export function createLease(clock: Clock, leaseMs: number): Lease {
  let untilMs = Number.NEGATIVE_INFINITY;
  let untilUnixMs = Number.NEGATIVE_INFINITY;
  return {
    leftMs: () => Math.max(0, Math.min(untilMs - clock.monotonicMs(), untilUnixMs - clock.unixMs())),
    isValid: () => clock.monotonicMs() < untilMs && clock.unixMs() < untilUnixMs,
    sendTime: () => ({ monotonicMs: clock.monotonicMs(), unixMs: clock.unixMs() }),
    extend(sent) {
      untilMs = Math.max(untilMs, sent.monotonicMs + leaseMs);
      untilUnixMs = sent.unixMs + leaseMs;
    },
    lose() {
      untilMs = Number.NEGATIVE_INFINITY;
      untilUnixMs = Number.NEGATIVE_INFINITY;
    },
  };
}

/** The times of the protocol. All instances of one fleet must use equal ones. */
export interface FleetTimes {
  /** How long an instance may admit after it sent its last successful heartbeat. */
  readonly leaseMs: number;
  /** The pause from one heartbeat to the next. */
  readonly beatMs: number;
  /** By how much the rate of a monotonic clock may be wrong: 0.01 is 1 %. */
  readonly clockRateError: number;
  /** How long a departed instance still counts for shares, and a new one has none. */
  readonly shareMs: number;
}

/** The times of the contract; `docs` and the tests of real processes use them as they are. */
export const fleetTimes: FleetTimes = {
  leaseMs: 5_000,
  beatMs: 250,
  clockRateError: 0.01,
  shareMs: 60_000,
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
