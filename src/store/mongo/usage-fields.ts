// A document holds the counts of a day: `a13` is what was accepted in the hour from 13:00 on, `l13`
// what was limited, `f13` what failed, and `t13` the milliseconds. One document for each hour would
// be 24 times as many to read. What is 0 is left out.

import type { CountedPage, UsageCounts, UsageHour, UsageSum } from "../../usage/usage-store.ts";
import type { UsageHoursDocument } from "./documents.ts";

export const hourMs = 3_600_000;
export const hoursOfDay = 24;
export const dayMs = hoursOfDay * hourMs;

const letters = {
  a: "acceptedCount",
  l: "limitedCount",
  f: "failedCount",
  t: "appMs",
} as const satisfies Record<string, keyof UsageCounts>;
export const countNames = Object.values(letters);

/** The fields of each hour, of which a query reads thousands. */
const fieldsOfHours = Array.from(
  { length: hoursOfDay },
  (_, hour) => [`a${hour}`, `l${hour}`, `f${hour}`, `t${hour}`] as const,
);

/** What says of which key, day and incarnation the document is. */
export function placeOf({ teamId, keyId, startTimeMs, incarnation }: Omit<UsageHour, keyof UsageCounts>) {
  const ofDayMs = dayOf(startTimeMs);
  return { _id: `${teamId}/${ofDayMs}/${keyId}/${incarnation}`, teamId, keyId, dayMs: ofDayMs, incarnation };
}

export function dayOf(unixMs: number): number {
  return Math.floor(unixMs / dayMs) * dayMs;
}

/** The number of the hour within its day, from 0 to 23. */
export function hourOf(unixMs: number): number {
  return (unixMs - dayOf(unixMs)) / hourMs;
}

/** The counts of one hour, under their names. */
export function fieldsOf(hour: UsageHour): Record<string, number> {
  const number = hourOf(hour.startTimeMs);
  const counts = Object.entries(letters).map(([letter, name]) => [`${letter}${number}`, hour[name]] as const);
  return Object.fromEntries(counts.filter(([, count]) => count > 0));
}

/** The hours of a document that have a count and are within the time. */
export function hoursOf(
  document: UsageHoursDocument,
  { fromMs, untilMs, keyId }: { readonly fromMs: number; readonly untilMs: number; readonly keyId: string },
): UsageSum[] {
  const sums: UsageSum[] = [];
  for (const [hour, [accepted, limited, failed, app]] of fieldsOfHours.entries()) {
    const startTimeMs = document.dayMs + hour * hourMs;
    if (startTimeMs < fromMs || startTimeMs >= untilMs) continue;
    const { [accepted]: acceptedCount = 0, [limited]: limitedCount = 0 } = document;
    const { [failed]: failedCount = 0, [app]: appMs = 0 } = document;
    if (acceptedCount + limitedCount + failedCount + appMs === 0) continue;
    sums.push({ startTimeMs, keyId, acceptedCount, limitedCount, failedCount, appMs });
  }
  return sums;
}

type GrowingSum = { -readonly [Name in keyof UsageSum]: UsageSum[Name] };

/** One sum for each time and key. */
export class UsageSums {
  readonly #byKey = new Map<string, Map<number, GrowingSum>>();

  /** The sum so far. */
  at(startTimeMs: number, keyId: string): GrowingSum {
    let ofKey = this.#byKey.get(keyId);
    if (ofKey === undefined) {
      ofKey = new Map();
      this.#byKey.set(keyId, ofKey);
    }
    let sum = ofKey.get(startTimeMs);
    if (sum === undefined) {
      sum = { startTimeMs, keyId, acceptedCount: 0, limitedCount: 0, failedCount: 0, appMs: 0 };
      ofKey.set(startTimeMs, sum);
    }
    return sum;
  }

  add(sums: readonly UsageSum[]): this {
    for (const each of sums) {
      const sum = this.at(each.startTimeMs, each.keyId);
      for (const name of countNames) sum[name] += each[name];
    }
    return this;
  }

  all(): UsageSum[] {
    return [...this.#byKey.values()].flatMap((ofKey) => [...ofKey.values()]);
  }
}

/** Whether the hour of the sum is in one of these pages of the document's incarnation. */
export function isIn(
  pages: readonly CountedPage[],
  { incarnation }: Pick<UsageHoursDocument, "incarnation">,
  { startTimeMs }: UsageSum,
): boolean {
  return pages.some((page) => page.startTimeMs === startTimeMs && page.incarnation === incarnation);
}
