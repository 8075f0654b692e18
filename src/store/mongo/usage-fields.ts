import type { CountedPage, UsageCounts, UsageHour, UsageSum } from "../../usage/usage-store.ts";
import type { UsageHoursDocument } from "./documents.ts";

// A document holds the counts of a day: `a13` is what was accepted in the hour from 13:00 on, `l13`
// what was limited, `f13` what failed, and `t13` the milliseconds. One document for each hour would
// be 24 times as many to read. What is 0 is left out.

const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

const letters = {
  a: "acceptedCount",
  l: "limitedCount",
  f: "failedCount",
  t: "appMs",
} as const satisfies Record<string, keyof UsageCounts>;

/** What says of which key, day and incarnation the document is. */
export function placeOf({ teamId, keyId, startTimeMs, incarnation }: Omit<UsageHour, keyof UsageCounts>) {
  const ofDayMs = dayOf(startTimeMs);
  return { _id: `${teamId}/${ofDayMs}/${keyId}/${incarnation}`, teamId, keyId, dayMs: ofDayMs, incarnation };
}

function dayOf(unixMs: number): number {
  return Math.floor(unixMs / dayMs) * dayMs;
}

/** The counts of one hour, under their names. */
export function fieldsOf(hour: UsageHour): Record<string, number> {
  const number = (hour.startTimeMs - dayOf(hour.startTimeMs)) / hourMs;
  const counts = Object.entries(letters).map(([letter, name]) => [`${letter}${number}`, hour[name]] as const);
  return Object.fromEntries(counts.filter(([, count]) => count > 0));
}

/** The hours of a document that have a count and are within the time. */
export function hoursOf(
  document: UsageHoursDocument,
  { fromMs, untilMs, keyId }: { readonly fromMs: number; readonly untilMs: number; readonly keyId: string },
): UsageSum[] {
  const sums: UsageSum[] = [];
  for (let hour = 0; hour < 24; hour++) {
    const startTimeMs = document.dayMs + hour * hourMs;
    if (startTimeMs < fromMs || startTimeMs >= untilMs) continue;
    const count = (letter: keyof typeof letters) => Number(document[`${letter}${hour}`] ?? 0);
    const [acceptedCount, limitedCount] = [count("a"), count("l")];
    const [failedCount, appMs] = [count("f"), count("t")];
    if (acceptedCount + limitedCount + failedCount + appMs === 0) continue;
    sums.push({ startTimeMs, keyId, acceptedCount, limitedCount, failedCount, appMs });
  }
  return sums;
}

/** Whether the hour of the sum is in one of these pages of the document's incarnation. */
export function isIn(
  pages: readonly CountedPage[],
  { incarnation }: Pick<UsageHoursDocument, "incarnation">,
  { startTimeMs }: UsageSum,
): boolean {
  return pages.some((page) => page.startTimeMs === startTimeMs && page.incarnation === incarnation);
}
