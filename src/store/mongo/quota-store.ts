import type { Filter } from "mongodb";
import {
  changedQuota,
  emptyQuota,
  grantQuota,
  type QuotaChange,
  type QuotaPlace,
  type QuotaRecord,
  type QuotaStore,
  quotaBounds,
  quotaRecord,
} from "../../quota/quota-store.ts";
import { unavailable } from "../../refusal/refusal.ts";
import { checkRecord } from "../records.ts";
import { type Collections, type QuotaDocument, storedQuota } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";
import type { WithEvent } from "./with-event.ts";

/**
 * The quotas in MongoDB. A change is written on the condition that the record is as it was read.
 */
export function createQuotaStore({ quotas }: Collections, call: StoreCall, withEvent: WithEvent): QuotaStore {
  async function find(id: string): Promise<QuotaRecord | undefined> {
    const found = await call(() => quotas.findOne({ _id: { $eq: id } }, newest));
    if (!found) return undefined;
    const { _id, ...facts } = checkRecord(storedQuota, found, `quotas/${id}`);
    return { id: _id, ...facts };
  }

  async function changeOne(place: QuotaPlace, change: QuotaChange): Promise<QuotaRecord> {
    for (let tries = 0; tries < quotaBounds.changeTriesMax; tries++) {
      const found = await find(place.id);
      const before = found ?? emptyQuota(place);
      const next = changedQuota(before, change);
      if (!next) return before;
      const changed = checkRecord(quotaRecord, next, `quotas/${place.id}`);
      if (await (found ? replace(changed) : insert(changed))) return changed;
    }
    throw unavailable({ cause: new Error(`the quota ${place.id} changed at each try to change it`) });
  }

  /** False where another instance came first. */
  async function replace({ id, ...facts }: QuotaRecord): Promise<boolean> {
    const before = { _id: { $eq: id }, version: { $eq: facts.version - 1 } };
    return (await call(() => quotas.replaceOne(before, facts))).matchedCount > 0;
  }

  async function insert({ id, ...facts }: QuotaRecord): Promise<boolean> {
    try {
      await call(() => quotas.insertOne({ _id: id, ...facts }));
      return true;
    } catch (thrown) {
      if (isDuplicate(thrown)) return false;
      throw thrown;
    }
  }

  async function remove(filter: Filter<QuotaDocument>, limit: number): Promise<number> {
    if (limit <= 0) return 0; // MongoDB takes 0 for no limit.
    const batch = quotas.find(filter).limit(limit).project<Pick<QuotaDocument, "_id">>({ _id: 1 });
    const ids = (await call(() => batch.toArray())).map(({ _id }) => _id);
    if (ids.length > 0) await call(() => quotas.deleteMany({ _id: { $in: ids } }));
    return ids.length;
  }

  return {
    change: (changes) => Promise.allSettled(changes.map(({ place, change }) => changeOne(place, change))),
    grant: (place, grant) => withEvent(() => changeOne(place, (record) => grantQuota(record, grant))),
    find,
    deleteBefore: ({ beforeMs, limit }) => remove({ startTimeMs: { $lt: beforeMs } }, limit),
    deleteOfTeam: (teamId, limit) => remove({ teamId: { $eq: teamId } }, limit),
  };
}

/** Also what has not reached a majority yet: it is what the next conditional write meets. */
const newest = { readConcern: { level: "local" } } as const;
