import { fail } from "../../refusal/refusal.ts";
import { isOver } from "../call-deadline.ts";
import { unaryMsMax } from "../served.ts";

const form = /^(\d{1,8})([HMSmun])$/;
const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 0.001,
  n: 0.000001,
};

/**
 * Returns how many milliseconds the call may take: the caller's `grpc-timeout`, but at most
 * `unaryMsMax`. Refuses a timeout that can't be read, and one that is over already.
 */
export function readTimeoutMs(value: string | undefined): number {
  if (value === undefined) return unaryMsMax;
  const timeoutMs = parseTimeoutMs(value);
  if (timeoutMs === undefined) {
    const problem = "The grpc-timeout can't be read. Send up to eight digits and a unit, as 30S or 500m.";
    throw fail("INVALID_ARGUMENT", { problem });
  }
  if (isOver(timeoutMs)) throw fail("DEADLINE_EXCEEDED");
  return Math.min(timeoutMs, unaryMsMax);
}

/** Returns a `grpc-timeout` in milliseconds; undefined if it has no valid form. */
export function parseTimeoutMs(value: string): number | undefined {
  const [, digits, unit = ""] = form.exec(value) ?? [];
  const ms = unitMs[unit];
  return digits === undefined || ms === undefined ? undefined : Number(digits) * ms;
}
