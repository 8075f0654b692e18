import type { Collection, Filter } from "mongodb";
import {
  dayMs,
  hourMs,
  startOfDay,
  type UsageBatch,
  type UsageQuery,
  type UsageRecord,
  type UsageStore,
  type UsageSum,
  usageRecord,
} from "../../usage/usage-store.ts";
import { checkRecord } from "../records.ts";
import type { Collections, UsageHoursDocument } from "./documents.ts";
import { repeatOnDuplicate, type StoreCall } from "./store-call.ts";

/**
 * How keys are used, in MongoDB: a document for each key and day with the counts of its hours
 * (`usageHours`), and one with those of the day (`usageDays`), to which every process adds. A
 * document remembers the number of the batch that each process added to it last, so one that is
 * repeated, as its answer was lost, is not added twice.
 */
export function createUsageStore({ usageHours, usageDays }: Collections, call: StoreCall): UsageStore {
  return {
    async add(batch) {
      const hours = batch.hours.map((hour) => checkRecord(usageRecord, hour, "usageHours"));
      if (hours.length === 0) return;
      await addTo(call, usageHours, { batch, counted: hours.map(hourDocumentOf) });
      await addTo(call, usageDays, { batch, counted: hours.map(dayOf).map(dayDocumentOf) });
    },
    async hours({ fromMs, untilMs, ...query }) {
      const filter = { ...keysOf(query), dayMs: { $gt: fromMs - dayMs, $lt: untilMs } };
      const days = usageHours.find(filter, usageBatch).project<UsageHoursDocument>({ _id: 0, by: 0 });
      const sums = new UsageSums();
      for (const day of await call(() => days.toArray())) {
        for (const [hour, names] of fieldsOfHours.entries()) {
          const startTimeMs = day.dayMs + hour * hourMs;
          if (startTimeMs < fromMs || startTimeMs >= untilMs) continue;
          sums.add(
            startTimeMs,
            query.keyIds ? day.keyId : "",
            names.map((name) => day[name] ?? 0),
          );
        }
      }
      return sums.all();
    },
    async days({ fromMs, untilMs, ...query }) {
      const filter = { ...keysOf(query), startTimeMs: { $gte: fromMs, $lt: untilMs } };
      const days = usageDays.find(filter, usageBatch).project<UsageRecord>({ _id: 0, by: 0 });
      const sums = new UsageSums();
      for (const day of await call(() => days.toArray())) {
        sums.add(day.startTimeMs, query.keyIds ? day.keyId : "", countsOf(day));
      }
      return sums.all();
    },
    async teamAfter(teamId) {
      const later = { teamId: { $gt: teamId } };
      const first = { sort: { teamId: 1 }, projection: { teamId: 1 } } as const;
      const ofHours = await call(() => usageHours.findOne(later, first));
      const ofDays = await call(() => usageDays.findOne(later, first));
      const ids = [ofHours, ofDays].flatMap((found) => (found ? [found.teamId] : []));
      return ids.sort((a, b) => (a < b ? -1 : 1))[0];
    },
    deleteHours: (teamId, { beforeMs, limit }) =>
      remove(call, usageHours, { filter: { teamId: { $eq: teamId }, dayMs: { $lt: beforeMs } }, limit }),
    deleteDays: (teamId, { beforeMs, limit }) =>
      remove(call, usageDays, { filter: { teamId: { $eq: teamId }, startTimeMs: { $lt: beforeMs } }, limit }),
  };
}

/** A document in parts: which one it is, and its counts or what is added to them. */
interface Counted {
  readonly _id: string;
  readonly place: Readonly<Record<string, string | number>>;
  readonly counts: Readonly<Record<string, number>>;
}

/**
 * Adds to the documents that do not have the batch. Where some are missing, it makes them and adds
 * again. So whatever was done when it fails, it can be repeated. Each document has one operation: a
 * second one would find that the document has the batch.
 */
async function addTo<Document extends { readonly _id: string }>(
  call: StoreCall,
  collection: Collection<Document>,
  { batch, counted }: { readonly batch: UsageBatch; readonly counted: readonly Counted[] },
): Promise<void> {
  const last = `by.${batch.incarnation}`;
  const documents = [...Map.groupBy(counted, ({ _id }) => _id)];
  const adding = documents.map(([_id, ofDocument]) => ({
    updateOne: {
      filter: { _id, [last]: { $ne: batch.number } },
      update: { $inc: sumOf(ofDocument), $set: { [last]: batch.number } },
    },
  }));
  const add = () => call(() => collection.bulkWrite(adding as never, unordered));
  const { matchedCount } = await add();
  if (matchedCount === documents.length) return;
  const making = documents.map(([_id, [first]]) => ({
    updateOne: { filter: { _id }, update: { $setOnInsert: first?.place }, upsert: true },
  }));
  await repeatOnDuplicate(() => call(() => collection.bulkWrite(making as never, unordered)));
  await add();
}

function sumOf(counted: readonly Counted[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { counts } of counted) {
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}

async function remove<Document extends { readonly _id: string }>(
  call: StoreCall,
  collection: Collection<Document>,
  { filter, limit }: { readonly filter: Filter<Document>; readonly limit: number },
): Promise<number> {
  if (limit <= 0) return 0; // MongoDB takes 0 for no limit.
  const batch = collection.find(filter).limit(limit).project({ _id: 1 });
  const ids = (await call(() => batch.toArray())).map(({ _id }) => _id);
  if (ids.length > 0) await call(() => collection.deleteMany({ _id: { $in: ids } } as Filter<Document>));
  return ids.length;
}

/** All in one message, up to the size of one. Untold, MongoDB sends 101 documents first. */
const usageBatch = { batchSize: 10_000 } as const;
const unordered = { ordered: false } as const;

// A document of `usageHours` has the counts of an hour in four fields: `a13` is what was accepted
// from 13:00 on, `l13` what was limited, `f13` what failed, and `t13` the milliseconds. What is 0
// is left out.

const fieldsOfHours = Array.from(
  { length: dayMs / hourMs },
  (_, hour) => [`a${hour}`, `l${hour}`, `f${hour}`, `t${hour}`] as const,
);

/** An hour within the document of its day. */
export function hourDocumentOf(hour: UsageRecord): Counted {
  const { teamId, keyId, startTimeMs } = dayOf(hour);
  const names = fieldsOfHours[(hour.startTimeMs - startTimeMs) / hourMs] ?? [];
  const counts = countsOf(hour);
  const named = names.map((name, n) => [name, counts[n] ?? 0] as const).filter(([, count]) => count !== 0);
  const place = { teamId, keyId, dayMs: startTimeMs };
  return { _id: idOf(hour), place, counts: Object.fromEntries(named) };
}

export function dayDocumentOf({ teamId, keyId, startTimeMs, ...counts }: UsageRecord): Counted {
  const place = { teamId, keyId, startTimeMs };
  return { _id: idOf(place), place, counts };
}

function dayOf(hour: UsageRecord): UsageRecord {
  return { ...hour, startTimeMs: startOfDay(hour.startTimeMs) };
}

function idOf({ teamId, keyId, startTimeMs }: Pick<UsageRecord, "teamId" | "keyId" | "startTimeMs">): string {
  return `${teamId}/${startOfDay(startTimeMs)}/${keyId}`;
}

function keysOf({ teamId, keyId, keyIds }: Pick<UsageQuery, "teamId" | "keyId" | "keyIds">) {
  return {
    teamId: { $eq: teamId },
    ...(keyId !== undefined && { keyId: { $eq: keyId } }),
    ...(keyIds && { keyId: { $in: [...keyIds] } }),
  };
}

function countsOf({ acceptedCount, limitedCount, failedCount, appMs }: UsageRecord): number[] {
  return [acceptedCount, limitedCount, failedCount, appMs];
}

type GrowingSum = { -readonly [Name in keyof UsageSum]: UsageSum[Name] };

/** One sum for each time and key that has a count. */
class UsageSums {
  readonly #byKey = new Map<string, Map<number, GrowingSum>>();

  add(startTimeMs: number, keyId: string, counts: readonly number[]): void {
    const [accepted = 0, limited = 0, failed = 0, appMs = 0] = counts;
    if (accepted + limited + failed + appMs === 0) return;
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
    sum.acceptedCount += accepted;
    sum.limitedCount += limited;
    sum.failedCount += failed;
    sum.appMs += appMs;
  }

  all(): UsageSum[] {
    return [...this.#byKey.values()].flatMap((ofKey) => [...ofKey.values()]);
  }
}
