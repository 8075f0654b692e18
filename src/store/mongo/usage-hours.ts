import type { CountedPage, UsageCounts, UsageDay, UsageQuery, UsageSum } from "../../usage/usage-store.ts";
import type { Collections, UsageDayDocument, UsageHoursDocument } from "./documents.ts";
import { addPacked } from "./packed-hours.ts";
import type { StoreCall } from "./store-call.ts";
import { dayMs, dayOf, hoursOf, isIn, UsageSums } from "./usage-fields.ts";

/** Without a key where all keys count together. */
type WholeDay = Pick<UsageDay, "startTimeMs"> &
  Partial<Pick<UsageDay, "keyId">> &
  Required<Pick<UsageDayDocument, "packedHours">>;

/** All in one message, up to the size of one. Untold, MongoDB sends 101 documents first. */
export const usageBatch = { batchSize: 10_000 } as const;

/** The hours of keys, of which a month may have thousands of documents. */
export function createReadHours({ usageHours, usageDays }: Collections, call: StoreCall) {
  /**
   * The days whose packed hours are what the documents say, as none of them was written since, and
   * the other days. Fleets and restarts make many documents of a key's day, each with up to 96
   * fields: without this, a month of 50 keys takes 5,000 of them and more.
   */
  async function wholeDays(query: UsageQuery, except: readonly CountedPage[]) {
    const ofDays = { _id: 0, startTimeMs: 1, packedHours: 1, packedWrites: 1 } as const;
    const fields = query.keyIds ? ({ ...ofDays, keyId: 1 } as const) : ofDays;
    const days = usageDays
      .find({ ...keysOf(query), startTimeMs: filterOf(query).dayMs }, usageBatch)
      .project<WholeDay & Pick<UsageDayDocument, "packedWrites">>(fields);
    // They are read first. So no key has more writes here than there, and where the sums of all
    // keys are the same, so is each of them.
    const packedDays = Map.groupBy(await call(() => days.toArray()), ({ startTimeMs }) => startTimeMs);
    const states = usageHours.aggregate<{ _id: number; writes: number }>([
      { $match: filterOf(query) },
      { $group: { _id: "$dayMs", writes: { $sum: "$writes" } } },
    ]);
    const excepted = new Set(except.map(({ startTimeMs }) => dayOf(startTimeMs)));
    const whole: WholeDay[] = [];
    const otherDays: number[] = [];
    for (const { _id: startMs, writes } of await call(() => states.toArray())) {
      const ofDay = packedDays.get(startMs) ?? [];
      const packedWrites = ofDay.reduce((sum, day) => sum + (day.packedWrites ?? Number.NaN), 0);
      // Hours without a count of their writes are of an early Keyrun.
      if (writes > 0 && packedWrites === writes && !excepted.has(startMs)) whole.push(...ofDay);
      else otherDays.push(startMs);
    }
    return { whole, otherDays };
  }

  return async (query: UsageQuery, except: readonly CountedPage[]): Promise<UsageSum[]> => {
    const filter = filterOf(query);
    const keyIdOf = (keyId: string) => (query.keyIds ? keyId : "");
    // Of one key or two days there are few documents.
    const isLarge = query.keyId === undefined && query.untilMs - query.fromMs > 2 * dayMs;
    const { whole, otherDays } = isLarge ? await wholeDays(query, except) : nothingWhole;
    const rest = otherDays ? { ...filter, dayMs: { $in: otherDays } } : filter;
    const documents = await call(() => usageHours.find(rest, usageBatch).toArray());
    const sums = new UsageSums();
    for (const { packedHours, startTimeMs, keyId = "" } of whole) {
      addPacked(sums, packedHours, startTimeMs, { ...query, keyId });
    }
    for (const document of documents) {
      const hours = hoursOf(document, { ...query, keyId: keyIdOf(document.keyId) });
      sums.add(except.length === 0 ? hours : hours.filter((sum) => !isIn(except, document, sum)));
    }
    return sums.all();
  };
}

const nothingWhole = { whole: [], otherDays: undefined };

export function dayIdOf({ teamId, startTimeMs, keyId }: Omit<UsageDay, keyof UsageCounts>): string {
  return `${teamId}/${startTimeMs}/${keyId}`;
}

/** It only grows, as the counts do: where it is the same, so are the counts. */
export function writesOf({ writes = 0 }: Pick<UsageHoursDocument, "writes">): number {
  return writes;
}

export function keysOf({ teamId, keyId, keyIds }: UsageQuery) {
  return {
    teamId: { $eq: teamId },
    ...(keyId !== undefined && { keyId: { $eq: keyId } }),
    ...(keyIds && { keyId: { $in: [...keyIds] } }),
  };
}

function filterOf(query: UsageQuery) {
  return { ...keysOf(query), dayMs: { $gt: query.fromMs - dayMs, $lt: query.untilMs } };
}

/** One sum for each time and key. */
export function merged(sums: readonly UsageSum[]): UsageSum[] {
  return new UsageSums().add(sums).all();
}
