import { wrongUse } from "./command-failure.ts";

const dayMs = 86_400_000;
const unitMs: Readonly<Record<string, number>> = { d: dayMs, h: dayMs / 24, m: dayMs / 24 / 60 };

/** The milliseconds of a text like 90d, 12h or 30m. Throws wrong use, naming the option. */
export function readTimeSpan(text: string, option: string): number {
  const [, digits, unit = ""] = /^(\d{1,5})([dhm])$/.exec(text) ?? [];
  const ms = Number(digits) * (unitMs[unit] ?? Number.NaN);
  if (ms > 0) return ms;
  throw wrongUse(`${option} must be a number of days, hours or minutes, like 90d, 12h or 30m.`);
}
