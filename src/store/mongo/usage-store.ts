import type { Collection, Filter } from "mongodb";
import type { UsageCounts, UsageDay, UsageQuery, UsageStore, UsageSum } from "../../usage/usage-store.ts";
import { checkRecord, usageDayRecord, usageHourRecord } from "../records.ts";
import type { Collections, UsageDayDocument, UsageHoursDocument } from "./documents.ts";
import type { StoreCall } from "./store-call.ts";
import { dayMs, fieldsOf, hoursOf, isIn, placeOf } from "./usage-fields.ts";

/** Documents in one message. */
const documentsPerMessage = 500;

/** How keys are used, in MongoDB. */
export function createUsageStore({ usageHours, usageDays }: Collections, call: StoreCall): UsageStore {
  return {
    async recordHours(hours) {
      const updates = hours.map((each) => {
        const hour = checkRecord(usageHourRecord, each, "usageHours");
        const { _id, ...place } = placeOf(hour);
        const update = { $setOnInsert: place, $max: fieldsOf(hour) };
        return { updateOne: { filter: { _id }, update, upsert: true } };
      });
      for (let start = 0; start < updates.length; start += documentsPerMessage) {
        const message = updates.slice(start, start + documentsPerMessage);
        await call(() => usageHours.bulkWrite(message, { ordered: false }));
      }
    },
    async hours({ except, ...query }) {
      const { fromMs, untilMs, keyIds } = query;
      const days = { dayMs: { $gt: fromMs - dayMs, $lt: untilMs } };
      const found = await call(() => usageHours.find({ ...ofKeys(query), ...days }).toArray());
      const sums = found.flatMap((document) => {
        const keyId = keyIds ? document.keyId : "";
        const ofDocument = hoursOf(document, { fromMs, untilMs, keyId });
        return except.length === 0 ? ofDocument : ofDocument.filter((sum) => !isIn(except, document, sum));
      });
      return merged(sums);
    },
    async days(query) {
      const { keyIds, fromMs, untilMs } = query;
      const startTimeMs = { $gte: fromMs, $lt: untilMs };
      const found = await call(() => usageDays.find({ ...ofKeys(query), startTimeMs }).toArray());
      return merged(found.map(({ _id, teamId, ...day }) => ({ ...day, keyId: keyIds ? day.keyId : "" })));
    },
    async setDay(teamId, startTimeMs) {
      const filter = { teamId: { $eq: teamId }, dayMs: { $eq: startTimeMs } };
      const found = await call(() => usageHours.find(filter).toArray());
      const hours = found.flatMap((document) =>
        hoursOf(document, { fromMs: 0, untilMs: startTimeMs + dayMs, keyId: document.keyId }),
      );
      const updates = merged(hours.map((sum) => ({ ...sum, startTimeMs }))).map(({ keyId, ...sum }) => {
        const { startTimeMs: _, ...counts } = sum;
        const place = { teamId, keyId, startTimeMs };
        checkRecord(usageDayRecord, { ...place, ...counts }, "usageDays");
        const update = { $setOnInsert: place, $max: { ...counts } };
        return { updateOne: { filter: { _id: dayIdOf(place) }, update, upsert: true } };
      });
      for (let start = 0; start < updates.length; start += documentsPerMessage) {
        const message = updates.slice(start, start + documentsPerMessage);
        await call(() => usageDays.bulkWrite(message, { ordered: false }));
      }
    },
    async newestDay(teamId) {
      const newest = usageDays.find({ teamId: { $eq: teamId } }).sort({ startTimeMs: -1 });
      const [found] = await call(() => newest.limit(1).toArray());
      return found?.startTimeMs;
    },
    async daysWithHours(teamId) {
      const days = await call(() => usageHours.distinct("dayMs", { teamId: { $eq: teamId } }));
      return days.map(Number).sort((a, b) => a - b);
    },
    async teamAfter(teamId) {
      const later = { teamId: { $gt: teamId } };
      const [first, options] = [{ teamId: 1 }, { projection: { teamId: 1 } }] as const;
      const ofHours = await call(() => usageHours.findOne(later, { ...options, sort: first }));
      const ofDays = await call(() => usageDays.findOne(later, { ...options, sort: first }));
      const ids = [ofHours, ofDays].flatMap((found) => (found ? [found.teamId] : []));
      return ids.sort((a, b) => (a < b ? -1 : 1))[0];
    },
    deleteHours: (teamId, { beforeMs, limit }) =>
      remove(usageHours, { teamId: { $eq: teamId }, dayMs: { $lt: beforeMs } }, limit),
    deleteDays: (teamId, { beforeMs, limit }) =>
      remove(usageDays, { teamId: { $eq: teamId }, startTimeMs: { $lt: beforeMs } }, limit),
  };

  async function remove<Document extends UsageHoursDocument | UsageDayDocument>(
    collection: Collection<Document>,
    filter: Filter<Document>,
    limit: number,
  ): Promise<number> {
    if (limit <= 0) return 0; // MongoDB takes 0 for no limit.
    const batch = collection.find(filter).limit(limit).project({ _id: 1 });
    const ids = (await call(() => batch.toArray())).map(({ _id }) => _id);
    if (ids.length > 0) await call(() => collection.deleteMany({ _id: { $in: ids } } as Filter<Document>));
    return ids.length;
  }
}

export function dayIdOf({ teamId, startTimeMs, keyId }: Omit<UsageDay, keyof UsageCounts>): string {
  return `${teamId}/${startTimeMs}/${keyId}`;
}

function ofKeys({ teamId, keyId, keyIds }: UsageQuery) {
  return {
    teamId: { $eq: teamId },
    ...(keyId !== undefined && { keyId: { $eq: keyId } }),
    ...(keyIds && { keyId: { $in: [...keyIds] } }),
  };
}

/** One sum for each time and key. */
function merged(sums: readonly UsageSum[]): UsageSum[] {
  const byPlace = new Map<string, UsageSum>();
  for (const sum of sums) {
    const place = `${sum.startTimeMs}/${sum.keyId}`;
    const before = byPlace.get(place);
    byPlace.set(place, before ? added(before, sum) : sum);
  }
  return [...byPlace.values()];
}

function added(one: UsageSum, other: UsageSum): UsageSum {
  return {
    ...one,
    acceptedCount: one.acceptedCount + other.acceptedCount,
    limitedCount: one.limitedCount + other.limitedCount,
    failedCount: one.failedCount + other.failedCount,
    appMs: one.appMs + other.appMs,
  };
}
