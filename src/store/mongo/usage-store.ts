import type { Collection, Filter } from "mongodb";
import type { UsageStore, UsageSum } from "../../usage/usage-store.ts";
import { checkRecord, usageDayRecord, usageHourRecord } from "../records.ts";
import type { Collections, UsageDayDocument, UsageHoursDocument } from "./documents.ts";
import { packed } from "./packed-hours.ts";
import type { StoreCall } from "./store-call.ts";
import { dayMs, fieldsOf, hoursOf, placeOf } from "./usage-fields.ts";
import { createReadHours, dayIdOf, keysOf, merged, usageBatch, writesOf } from "./usage-hours.ts";

/** Documents in one message. */
const documentsPerMessage = 500;

const countFields = { acceptedCount: 1, limitedCount: 1, failedCount: 1, appMs: 1 } as const;

/** How keys are used, in MongoDB. */
export function createUsageStore(collections: Collections, call: StoreCall): UsageStore {
  const { usageHours, usageDays } = collections;
  const readHours = createReadHours(collections, call);

  return {
    async recordHours(hours) {
      const updates = hours.map((each) => {
        const hour = checkRecord(usageHourRecord, each, "usageHours");
        const { _id, ...place } = placeOf(hour);
        const update = { $setOnInsert: place, $max: fieldsOf(hour), $inc: { writes: 1 } };
        return { updateOne: { filter: { _id }, update, upsert: true } };
      });
      for (let start = 0; start < updates.length; start += documentsPerMessage) {
        const message = updates.slice(start, start + documentsPerMessage);
        await call(() => usageHours.bulkWrite(message, { ordered: false }));
      }
    },
    hours: ({ except, ...query }) => readHours(query, except),
    async days(query) {
      const { keyIds, fromMs, untilMs } = query;
      const startTimeMs = { $gte: fromMs, $lt: untilMs };
      const fields = { _id: 0, startTimeMs: 1, keyId: 1, ...countFields } as const;
      const days = usageDays.find({ ...keysOf(query), startTimeMs }, usageBatch).project<UsageSum>(fields);
      const found = await call(() => days.toArray());
      return merged(keyIds ? found : found.map((day) => ({ ...day, keyId: "" })));
    },
    async setDay(teamId, startTimeMs) {
      const filter = { teamId: { $eq: teamId }, dayMs: { $eq: startTimeMs } };
      const found = await call(() => usageHours.find(filter, usageBatch).toArray());
      const time = { fromMs: 0, untilMs: startTimeMs + dayMs };
      const updates = [...Map.groupBy(found, ({ keyId }) => keyId)].flatMap(([keyId, documents]) => {
        const hours = merged(documents.flatMap((document) => hoursOf(document, { ...time, keyId })));
        const place = { teamId, keyId, startTimeMs };
        const packedWrites = documents.reduce((sum, document) => sum + writesOf(document), 0);
        return merged(hours.map((sum) => ({ ...sum, startTimeMs }))).map(
          ({ acceptedCount, limitedCount, failedCount, appMs }) => {
            const counts = { acceptedCount, limitedCount, failedCount, appMs };
            checkRecord(usageDayRecord, { ...place, ...counts }, "usageDays");
            const update = {
              $setOnInsert: place,
              $max: counts,
              $set: { packedHours: packed(hours), packedWrites },
            };
            return { updateOne: { filter: { _id: dayIdOf(place) }, update, upsert: true } };
          },
        );
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
