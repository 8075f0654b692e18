// The four counts of each hour of a day, one after the other, each as a varint of Protobuf's wire
// format: 7 bits in a byte, the lowest first. A day takes 96 bytes where nothing was counted, and
// seldom more than 200. To read 96 fields takes ten times as long.

import { Binary } from "mongodb";
import type { UsageSum } from "../../usage/usage-store.ts";
import { countNames, hourMs, hourOf, hoursOfDay, type UsageSums } from "./usage-fields.ts";

/** Packs the counts of a day's hours, which are whole numbers up to 2⁵³ − 1. */
export function packed(hours: readonly UsageSum[]): Binary {
  const byHour = new Map(hours.map((sum) => [hourOf(sum.startTimeMs), sum]));
  const bytes: number[] = [];
  for (let hour = 0; hour < hoursOfDay; hour++) {
    for (const name of countNames) {
      let rest = byHour.get(hour)?.[name] ?? 0;
      for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
      bytes.push(rest);
    }
  }
  return new Binary(Uint8Array.from(bytes));
}

/** Adds what `packed` has packed: the hours that have a count and are within the time. */
export function addPacked(
  sums: UsageSums,
  { buffer }: Binary,
  ofDayMs: number,
  { fromMs, untilMs, keyId }: { readonly fromMs: number; readonly untilMs: number; readonly keyId: string },
): void {
  let place = 0;
  // Not by bits, of which JavaScript's numbers have 32 there.
  const count = () => {
    let sum = 0;
    for (let weight = 1; ; weight *= 0x80) {
      const byte = buffer[place++] ?? 0;
      if (byte < 0x80) return sum + byte * weight;
      sum += (byte - 0x80) * weight;
    }
  };
  for (let hour = 0; hour < hoursOfDay; hour++) {
    const [acceptedCount, limitedCount, failedCount, appMs] = [count(), count(), count(), count()];
    const startTimeMs = ofDayMs + hour * hourMs;
    if (startTimeMs < fromMs || startTimeMs >= untilMs) continue;
    if (acceptedCount + limitedCount + failedCount + appMs === 0) continue;
    const sum = sums.at(startTimeMs, keyId);
    sum.acceptedCount += acceptedCount;
    sum.limitedCount += limitedCount;
    sum.failedCount += failedCount;
    sum.appMs += appMs;
  }
}
