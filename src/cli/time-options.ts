import { systemClock } from "../clock.ts";
import { wrongUse } from "./command-failure.ts";

const dayMs = 86_400_000;
const unitMs: Readonly<Record<string, number>> = { d: dayMs, h: dayMs / 24, m: dayMs / 24 / 60 };

/** A time like 90d, 12h or 30m in milliseconds; undefined where the text is none. */
function spanIn(text: string): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,5})([dhm])$/.exec(text) ?? [];
  const ms = Number(digits) * (unitMs[unit] ?? Number.NaN);
  return Number.isNaN(ms) ? undefined : ms;
}

/** The time that an option names, in milliseconds: more than none. */
export function readSpan(text: string, option: string): number {
  const ms = spanIn(text);
  if (ms !== undefined && ms > 0) return ms;
  throw wrongUse(`${option} must be a number of days, hours or minutes, like 90d, 12h or 30m.`);
}

/** As `readSpan`, in the form of a duration; 0 is allowed. */
export function readDuration(text: string, option: string): string {
  return `${(text === "0" ? 0 : readSpan(text, option)) / 1_000}s`;
}

/** The moment that `--expires` names, in RFC 3339. A date is its first moment in UTC. */
export function readExpiry(text: string): string {
  const span = spanIn(text);
  if (span !== undefined && span > 0) return new Date(systemClock.unixMs() + span).toISOString();
  const isTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const timeMs = isTime ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(timeMs)) return new Date(timeMs).toISOString();
  throw wrongUse("--expires must be a time from now, like 90d or 12h, or a date, like 2027-01-31.");
}
