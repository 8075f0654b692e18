import type { CountedPage, UsageCounts, UsageDay, UsageQuery, UsageSum } from "../../usage/usage-store.ts";
import type { Collections, UsageDayDocument, UsageHoursDocument } from "./documents.ts";
import type { StoreCall } from "./store-call.ts";
import { addPacked, dayMs, dayOf, hoursOf, isIn, UsageSums } from "./usage-fields.ts";

type WholeDay = Pick<UsageDay, "keyId" | "startTimeMs"> & Required<Pick<UsageDayDocument, "_id" | "hours">>;

/** The hours of keys, of which a month may have thousands of documents. */
export function createReadHours({ usageHours, usageDays }: Collections, call: StoreCall) {
  /**
   * The days of keys whose packed hours are what their documents say, as none of them was written
   * since, and the other days. Fleets and restarts make many documents of a key's day, each with
   * up to 96 fields: without this, a month of 50 keys takes 5,000 of them and more.
   */
  async function wholeDays(query: UsageQuery, except: readonly CountedPage[]) {
    const fields = { _id: 0, keyId: 1, dayMs: 1, writes: 1 } as const;
    const states = usageHours.find(filterOf(query)).project<UsageHoursDocument>(fields);
    const writes = new Map<string, number>();
    const otherDays = new Map<string, number>();
    for (const state of await call(() => states.toArray())) {
      const id = dayIdOf({ teamId: query.teamId, keyId: state.keyId, startTimeMs: state.dayMs });
      writes.set(id, (writes.get(id) ?? 0) + writesOf(state));
      otherDays.set(id, state.dayMs);
    }
    const excepted = new Set(except.map(({ startTimeMs }) => dayOf(startTimeMs)));
    const days = usageDays
      .find({ ...keysOf(query), startTimeMs: filterOf(query).dayMs })
      .project<WholeDay & { writes?: number }>({ keyId: 1, startTimeMs: 1, hours: 1, writes: 1 });
    const whole = new Map<string, WholeDay>();
    for (const day of await call(() => days.toArray())) {
      if (day.writes === undefined || day.writes !== writes.get(day._id)) continue;
      if (excepted.has(day.startTimeMs)) continue;
      whole.set(day._id, day);
      otherDays.delete(day._id);
    }
    return { whole, otherDays: [...new Set(otherDays.values())] };
  }

  return async (query: UsageQuery, except: readonly CountedPage[]): Promise<UsageSum[]> => {
    const filter = filterOf(query);
    const keyIdOf = (keyId: string) => (query.keyIds ? keyId : "");
    // Of one key or two days there are few documents.
    const isLarge = query.keyId === undefined && query.untilMs - query.fromMs > 2 * dayMs;
    const { whole, otherDays } = isLarge ? await wholeDays(query, except) : nothingWhole;
    const rest = otherDays ? { ...filter, dayMs: { $in: otherDays } } : filter;
    const documents = await call(() => usageHours.find(rest).toArray());
    const sums = new UsageSums();
    for (const { hours, startTimeMs, keyId } of whole.values()) {
      addPacked(sums, hours, startTimeMs, { ...query, keyId: keyIdOf(keyId) });
    }
    for (const document of documents) {
      if (whole.has(dayIdOf({ ...document, startTimeMs: document.dayMs }))) continue;
      const hours = hoursOf(document, { ...query, keyId: keyIdOf(document.keyId) });
      sums.add(except.length === 0 ? hours : hours.filter((sum) => !isIn(except, document, sum)));
    }
    return sums.all();
  };
}

const nothingWhole = { whole: new Map<string, WholeDay>(), otherDays: undefined };

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
