import type { Collection, Filter } from "mongodb";
import type {
  CountedPage,
  UsageCounts,
  UsageDay,
  UsageHour,
  UsageQuery,
  UsageStore,
  UsageSum,
} from "../../usage/usage-store.ts";
import { checkRecord, usageDayRecord, usageHourRecord } from "../records.ts";
import type { Collections, UsageHoursDocument } from "./documents.ts";
import { repeatOnDuplicate, type StoreCall } from "./store-call.ts";

/**
 * How keys are used, in MongoDB. Each process writes one document for a key and day
 * (`usageHours`), and raises the counts of its hours in it. When a day is over, `setDay` writes the
 * sums of the day (`usageDays`), moves the hours of all processes into one document for the key and
 * day (`usageDayHours`), and removes theirs. That document keeps the processes apart and a count
 * only grows, so what is written late or moved twice counts once.
 */
export function createUsageStore(collections: Collections, call: StoreCall): UsageStore {
  const { usageHours, usageDays, usageDayHours } = collections;
  const place: Place = { collections, call };
  let made = 0;

  return {
    async recordHours(hours) {
      made++;
      const updates = hours.map((each) => {
        const hour = checkRecord(usageHourRecord, each, "usageHours");
        const { _id, ...place } = placeOf(hour);
        const update = { $setOnInsert: { ...place, made }, $max: fieldsOf(hour), $inc: { writes: 1 } };
        return { updateOne: { filter: { _id }, update, upsert: true } };
      });
      for (const message of inMessages(updates)) await call(() => usageHours.bulkWrite(message, unordered));
    },
    async hours({ except, ...query }) {
      const { fromMs, untilMs, keyIds } = query;
      const excepted = new Set(except.map(pageName));
      const sums = new UsageSums();
      for (const { keyId, dayMs, hours } of (await findHours(place, query)).values()) {
        for (const [incarnation, rows] of hours) {
          for (const [hour, ...counts] of rows) {
            const startTimeMs = dayMs + hour * hourMs;
            if (startTimeMs < fromMs || startTimeMs >= untilMs) continue;
            if (excepted.size > 0 && excepted.has(pageName({ startTimeMs, incarnation }))) continue;
            sums.add(startTimeMs, keyIds ? keyId : "", counts);
          }
        }
      }
      return sums.all();
    },
    async days(query) {
      const { keyIds, fromMs, untilMs } = query;
      const time = { startTimeMs: { $gte: fromMs, $lt: untilMs } };
      const fields = { _id: 0, startTimeMs: 1, keyId: 1, ...countFields } as const;
      const days = usageDays.find({ ...keysOf(query), ...time }, usageBatch).project<UsageSum>(fields);
      const sums = new UsageSums();
      for (const day of await call(() => days.toArray())) {
        sums.add(day.startTimeMs, keyIds ? day.keyId : "", countsOf(day));
      }
      return sums.all();
    },
    // Where another instance sets the same day, what it has moved is read anew.
    setDay: (teamId, startTimeMs) => repeatOnDuplicate(() => setDay(place, teamId, startTimeMs)),
    async newestDay(teamId) {
      const newest = usageDays.find({ teamId: { $eq: teamId } }).sort({ startTimeMs: -1 });
      const [found] = await call(() => newest.limit(1).toArray());
      return found?.startTimeMs;
    },
    async daysWithHours(teamId) {
      const ofTeam = { teamId: { $eq: teamId } };
      const written = await call(() => usageHours.distinct("dayMs", ofTeam));
      const moved = await call(() => usageDayHours.distinct("dayMs", ofTeam));
      return [...new Set([...written, ...moved].map(Number))].sort((a, b) => a - b);
    },
    async teamAfter(teamId) {
      const later = { teamId: { $gt: teamId } };
      const first = { sort: { teamId: 1 }, projection: { teamId: 1 } } as const;
      // Hours that were moved have a day.
      const ofHours = await call(() => usageHours.findOne(later, first));
      const ofDays = await call(() => usageDays.findOne(later, first));
      const ids = [ofHours, ofDays].flatMap((found) => (found ? [found.teamId] : []));
      return ids.sort((a, b) => (a < b ? -1 : 1))[0];
    },
    async deleteHours(teamId, { beforeMs, limit }) {
      const filter = { teamId: { $eq: teamId }, dayMs: { $lt: beforeMs } };
      const removed = await remove(call, { collection: usageHours, filter, limit });
      const left = limit - removed;
      return removed + (await remove(call, { collection: usageDayHours, filter, limit: left }));
    },
    deleteDays: (teamId, { beforeMs, limit }) =>
      remove(call, {
        collection: usageDays,
        filter: { teamId: { $eq: teamId }, startTimeMs: { $lt: beforeMs } },
        limit,
      }),
  };
}

interface Place {
  readonly collections: Collections;
  readonly call: StoreCall;
}

interface Removal<Document extends { readonly _id: string }> {
  readonly collection: Collection<Document>;
  readonly filter: Filter<Document>;
  readonly limit: number;
}

/** The hours by key and day, in `keyId/dayMs`. */
async function findHours({ collections, call }: Place, query: UsageQuery): Promise<Map<string, DayOfKey>> {
  const { usageHours, usageDayHours } = collections;
  const filter = { ...keysOf(query), dayMs: { $gt: query.fromMs - dayMs, $lt: query.untilMs } };
  // In this order: hours that are moved in between are in both, which changes nothing.
  const written = await call(() => usageHours.find(filter, usageBatch).toArray());
  const moved = await call(() => usageDayHours.find(filter, usageBatch).toArray());
  const found = new Map<string, DayOfKey>();
  for (const { keyId, dayMs, moves, hours } of moved) {
    found.set(`${keyId}/${dayMs}`, { keyId, dayMs, moves, hours: hoursIn(hours), written: [] });
  }
  for (const document of written) {
    const { keyId, dayMs, incarnation } = document;
    const place = `${keyId}/${dayMs}`;
    const day: DayOfKey = found.get(place) ?? { keyId, dayMs, moves: 0, hours: new Map(), written: [] };
    day.hours.set(incarnation, larger(day.hours.get(incarnation), rowsOf(document)));
    day.written.push(document);
    found.set(place, day);
  }
  return found;
}

async function setDay(place: Place, teamId: string, startTimeMs: number): Promise<void> {
  const { collections, call } = place;
  const { usageHours, usageDays, usageDayHours } = collections;
  const query = { teamId, fromMs: startTimeMs, untilMs: startTimeMs + dayMs };
  const days = [...(await findHours(place, query)).values()].filter(({ written }) => written.length > 0);
  if (days.length === 0) return;
  for (const some of inMessages(days)) {
    const sums = some.map((day) => sumOperation(teamId, day));
    await call(() => usageDays.bulkWrite(sums, unordered));
    const moves = some.map((day) => moveOperation(teamId, day));
    await call(() => usageDayHours.bulkWrite(moves, unordered));
    // One that was written since stays: the next time, it is moved again.
    const read = some.flatMap(({ written }) => written).map(asRead);
    for (const $or of inMessages(read)) await call(() => usageHours.deleteMany({ $or }));
  }
}

async function remove<Document extends { readonly _id: string }>(
  call: StoreCall,
  { collection, filter, limit }: Removal<Document>,
): Promise<number> {
  if (limit <= 0) return 0; // MongoDB takes 0 for no limit.
  const batch = collection.find(filter).limit(limit).project({ _id: 1 });
  const ids = (await call(() => batch.toArray())).map(({ _id }) => _id);
  if (ids.length > 0) await call(() => collection.deleteMany({ _id: { $in: ids } } as Filter<Document>));
  return ids.length;
}

const hourMs = 3_600_000;
const hoursOfDay = 24;
const dayMs = hoursOfDay * hourMs;

/** All in one message, up to the size of one. Untold, MongoDB sends 101 documents first. */
const usageBatch = { batchSize: 10_000 } as const;
const unordered = { ordered: false } as const;

type Counts = readonly [accepted: number, limited: number, failed: number, appMs: number];
/** The number of an hour within its day, from 0 to 23, and its counts. */
type HourRow = readonly [hour: number, ...Counts];

/** The hours of a key and day. */
interface DayOfKey {
  readonly keyId: string;
  readonly dayMs: number;
  /** How often hours were moved into its document; 0 if it has none. */
  readonly moves: number;
  /** By the incarnation of the process that counted. */
  readonly hours: Map<string, readonly HourRow[]>;
  /** The documents that are not moved yet. */
  readonly written: UsageHoursDocument[];
}

function sumOperation(teamId: string, { keyId, dayMs: startTimeMs, hours }: DayOfKey) {
  const sums = new UsageSums();
  for (const [, ...counts] of [...hours.values()].flat()) sums.add(startTimeMs, keyId, counts);
  const [sum] = sums.all();
  const place = { teamId, keyId, startTimeMs };
  const { acceptedCount, limitedCount, failedCount, appMs } = checkRecord(
    usageDayRecord,
    { teamId, ...sum },
    "usageDays",
  );
  const update = { $setOnInsert: place, $max: { acceptedCount, limitedCount, failedCount, appMs } };
  return { updateOne: { filter: { _id: dayIdOf(place) }, update, upsert: true } };
}

/** A duplicate where another instance has moved hours into the document since it was read. */
function moveOperation(teamId: string, { keyId, dayMs, moves, hours }: DayOfKey) {
  const _id = dayIdOf({ teamId, startTimeMs: dayMs, keyId });
  const text = JSON.stringify(Object.fromEntries(hours));
  const document = { _id, teamId, keyId, dayMs, moves: moves + 1, hours: text };
  if (moves === 0) return { insertOne: { document } };
  return { replaceOne: { filter: { _id, moves }, replacement: document, upsert: true } };
}

/** The document, if it was not written since, nor removed and made anew. */
function asRead({ _id, made, writes }: UsageHoursDocument) {
  return { _id, made: { $eq: made }, writes: { $eq: writes } };
}

function hoursIn(text: string): DayOfKey["hours"] {
  // Only `moveOperation` writes it.
  const hours: Record<string, HourRow[]> = JSON.parse(text);
  return new Map(Object.entries(hours));
}

/** The hours of both, and the larger of two counts. */
function larger(rows: readonly HourRow[] = [], others: readonly HourRow[]): readonly HourRow[] {
  if (rows.length === 0) return others;
  const byHour = new Map(rows.map((row) => [row[0], row]));
  for (const row of others) {
    const [hour, accepted, limited, failed, appMs] = row;
    const before = byHour.get(hour) ?? row;
    byHour.set(hour, [
      hour,
      Math.max(accepted, before[1]),
      Math.max(limited, before[2]),
      Math.max(failed, before[3]),
      Math.max(appMs, before[4]),
    ]);
  }
  return [...byHour.values()];
}

// A document of `usageHours` has the counts of an hour in four fields: `a13` is what was accepted
// from 13:00 on, `l13` what was limited, `f13` what failed, and `t13` the milliseconds. So one
// update raises each of them by itself. What is 0 is left out.

const fieldsOfHours = Array.from(
  { length: hoursOfDay },
  (_, hour) => [`a${hour}`, `l${hour}`, `f${hour}`, `t${hour}`] as const,
);

/** The counts of one hour, under their names. */
export function fieldsOf(hour: UsageHour): Record<string, number> {
  const names = fieldsOfHours[(hour.startTimeMs % dayMs) / hourMs] ?? [];
  const counts = countsOf(hour);
  return Object.fromEntries(
    names.map((name, n) => [name, counts[n] ?? 0]).filter(([, count]) => count !== 0),
  );
}

/** The hours of a document that have a count. */
function rowsOf(document: UsageHoursDocument): HourRow[] {
  const rows = fieldsOfHours.map(([accepted, limited, failed, app], hour): HourRow => {
    const { [accepted]: a = 0, [limited]: l = 0, [failed]: f = 0, [app]: t = 0 } = document;
    return [hour, a, l, f, t];
  });
  return rows.filter(([, a, l, f, t]) => a + l + f + t > 0);
}

/** What says of which key, day and incarnation the document is. */
export function placeOf({ teamId, keyId, startTimeMs, incarnation }: Omit<UsageHour, keyof UsageCounts>) {
  const ofDayMs = startTimeMs - (startTimeMs % dayMs);
  return { _id: `${teamId}/${ofDayMs}/${keyId}/${incarnation}`, teamId, keyId, dayMs: ofDayMs, incarnation };
}

export function dayIdOf({ teamId, startTimeMs, keyId }: Omit<UsageDay, keyof UsageCounts>): string {
  return `${teamId}/${startTimeMs}/${keyId}`;
}

function pageName({ startTimeMs, incarnation }: CountedPage): string {
  return `${startTimeMs}/${incarnation}`;
}

function keysOf({ teamId, keyId, keyIds }: UsageQuery) {
  return {
    teamId: { $eq: teamId },
    ...(keyId !== undefined && { keyId: { $eq: keyId } }),
    ...(keyIds && { keyId: { $in: [...keyIds] } }),
  };
}

const documentsPerMessage = 500;

function inMessages<T>(all: readonly T[]): T[][] {
  const count = Math.ceil(all.length / documentsPerMessage);
  return Array.from({ length: count }, (_, n) =>
    all.slice(n * documentsPerMessage, (n + 1) * documentsPerMessage),
  );
}

const countFields = { acceptedCount: 1, limitedCount: 1, failedCount: 1, appMs: 1 } as const;

function countsOf({ acceptedCount, limitedCount, failedCount, appMs }: UsageCounts): Counts {
  return [acceptedCount, limitedCount, failedCount, appMs];
}

type GrowingSum = { -readonly [Name in keyof UsageSum]: UsageSum[Name] };

/** One sum for each time and key. */
class UsageSums {
  readonly #byKey = new Map<string, Map<number, GrowingSum>>();

  add(startTimeMs: number, keyId: string, [accepted, limited, failed, appMs]: Counts): void {
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
