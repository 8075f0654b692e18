const units = [
  { name: "second", ms: 1_000, count: 60 },
  { name: "minute", ms: 60_000, count: 60 },
  { name: "hour", ms: 3_600_000, count: 24 },
  { name: "day", ms: 86_400_000, count: 30 },
  { name: "month", ms: 2_629_800_000, count: 12 },
  { name: "year", ms: 31_557_600_000, count: Number.POSITIVE_INFINITY },
] as const;

// Made when it is first used: on a phone, that takes some milliseconds.
let words: Intl.RelativeTimeFormat | undefined;

/**
 * How long ago a time was, rounded down: "3 minutes ago", or "just now" within a second. A time in
 * the future is "just now" as well: the clocks of server and browser may differ.
 */
export function relativeTime(thenMs: number, nowMs: number): string {
  const passedMs = nowMs - thenMs;
  const unit = units.find(({ ms, count }) => passedMs < ms * count) ?? units[5];
  const passed = Math.floor(passedMs / unit.ms);
  if (passed < 1 && unit.name === "second") return "just now";
  // English, because it stands in English sentences.
  words ??= new Intl.RelativeTimeFormat("en", { numeric: "always" });
  return words.format(-Math.max(passed, 1), unit.name);
}
