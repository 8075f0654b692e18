import { fail } from "../../refusal/refusal.ts";
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
 * `unaryMsMax`. Refuses a timeout that can't be read, and a timeout of zero.
 */
export function readTimeoutMs(value: string | undefined): number {
  if (value === undefined) return unaryMsMax;
  const [, digits, unit = ""] = form.exec(value) ?? [];
  const ms = unitMs[unit];
  if (digits === undefined || ms === undefined) {
    const problem = "The grpc-timeout can't be read. Send up to eight digits and a unit, as 30S or 500m.";
    throw fail("INVALID_ARGUMENT", { problem });
  }
  const timeoutMs = Number(digits) * ms;
  if (timeoutMs === 0) throw fail("DEADLINE_EXCEEDED");
  return Math.min(timeoutMs, unaryMsMax);
}
