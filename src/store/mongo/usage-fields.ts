import { Binary } from "mongodb";
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
const names = Object.values(letters);

/** What says of which key, day and incarnation the document is. */
export function placeOf({ teamId, keyId, startTimeMs, incarnation }: Omit<UsageHour, keyof UsageCounts>) {
  const ofDayMs = dayOf(startTimeMs);
  return { _id: `${teamId}/${ofDayMs}/${keyId}/${incarnation}`, teamId, keyId, dayMs: ofDayMs, incarnation };
}

export function dayOf(unixMs: number): number {
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

/** The counts of a day's hours in 768 bytes. To read 96 fields takes ten times as long. */
export function packed(hours: readonly UsageSum[]): Binary {
  const bytes = new DataView(new ArrayBuffer(24 * names.length * 8));
  for (const sum of hours) {
    const hour = (sum.startTimeMs - dayOf(sum.startTimeMs)) / hourMs;
    for (const [n, name] of names.entries()) bytes.setFloat64(placeIn(hour, n), sum[name], true);
  }
  return new Binary(Buffer.from(bytes.buffer));
}

function placeIn(hour: number, name: number): number {
  return (hour * names.length + name) * 8;
}

/** Adds what `packed` has packed: the hours that have a count and are within the time. */
export function addPacked(
  sums: UsageSums,
  { buffer }: Binary,
  ofDayMs: number,
  { fromMs, untilMs, keyId }: { readonly fromMs: number; readonly untilMs: number; readonly keyId: string },
): void {
  const bytes = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  for (let hour = 0; hour < 24; hour++) {
    const startTimeMs = ofDayMs + hour * hourMs;
    if (startTimeMs < fromMs || startTimeMs >= untilMs) continue;
    const count = (n: number) => bytes.getFloat64(placeIn(hour, n), true);
    const [acceptedCount, limitedCount, failedCount, appMs] = [count(0), count(1), count(2), count(3)];
    if (acceptedCount + limitedCount + failedCount + appMs === 0) continue;
    const sum = sums.at(startTimeMs, keyId);
    sum.acceptedCount += acceptedCount;
    sum.limitedCount += limitedCount;
    sum.failedCount += failedCount;
    sum.appMs += appMs;
  }
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
      for (const name of names) sum[name] += each[name];
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
