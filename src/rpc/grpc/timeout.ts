import { fail } from "../../error.ts";

const form = /^(\d{1,8})([HMSmun])$/;
const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 0.001,
  n: 0.000001,
};

/** The caller's `grpc-timeout` in milliseconds; undefined where it sent none. Refuses one that can't be read. */
export function readTimeoutMs(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const [, digits, unit = ""] = form.exec(value) ?? [];
  const ms = unitMs[unit];
  if (digits === undefined || ms === undefined) {
    const problem = "The grpc-timeout can't be read. Send up to eight digits and a unit, as 30S or 500m.";
    throw fail("INVALID_ARGUMENT", { problem });
  }
  return Number(digits) * ms;
}
