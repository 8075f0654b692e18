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
  return inWords(nowMs - thenMs, -1);
}

/** How long it is until a time, rounded: "in 9 days". A time that has passed is "just now". */
export function timeUntil(thenMs: number, nowMs: number): string {
  return inWords(thenMs - nowMs, 1);
}

function inWords(ms: number, sign: 1 | -1): string {
  // What has passed is rounded down. What comes is rounded: a key of 7 days that was just made has
  // not 6 left. And months ahead would round off what a person plans with.
  const countOf = (unit: (typeof units)[number]) => Math.floor(ms / unit.ms + (sign > 0 ? 0.5 : 0));
  const countMax = (unit: (typeof units)[number]) => (unit.name === "day" && sign > 0 ? 400 : unit.count);
  const unit = units.find((one) => countOf(one) < countMax(one)) ?? units[5];
  const count = countOf(unit);
  if (count < 1 && unit.name === "second") return "just now";
  // English, because it stands in English sentences.
  words ??= new Intl.RelativeTimeFormat("en", { numeric: "always" });
  return words.format(sign * Math.max(count, 1), unit.name);
}
