import type { Filter } from "mongodb";
import {
  givenOf,
  type QuotaClaim,
  type QuotaGiven,
  type QuotaPlace,
  type QuotaRecord,
  type QuotaStore,
  quotaBounds,
} from "../../quota/quota-store.ts";
import { unavailable } from "../../refusal/refusal.ts";
import { checkRecord } from "../records.ts";
import { type Collections, type QuotaDocument, storedQuota } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";
import type { WithEvent } from "./with-event.ts";

/**
 * The quotas in MongoDB. A claim adds to `claimed` on the condition that it still fits, so claims
 * of several instances never have to agree beforehand.
 */
export function createQuotaStore({ quotas }: Collections, call: StoreCall, withEvent: WithEvent): QuotaStore {
  async function find(id: string): Promise<QuotaRecord | undefined> {
    return recordOf(await call(() => quotas.findOne({ _id: { $eq: id } }, newest)));
  }

  async function findOrMake(place: QuotaPlace): Promise<QuotaRecord> {
    const found = await find(place.id);
    if (found) return found;
    const { id, ...facts } = place;
    const empty = { ...facts, claimed: 0, granted: 0, grantIds: [], holds: {} };
    try {
      await call(() => quotas.insertOne({ _id: id, ...empty }));
    } catch (thrown) {
      if (!isDuplicate(thrown)) throw thrown;
      return findOrMake(place);
    }
    return { id, ...empty };
  }

  async function claimOne(claim: QuotaClaim): Promise<QuotaGiven> {
    const { place, limit, owner, seq, held, gone } = claim;
    let seen = claim.seen;
    for (let tries = 0; tries < quotaBounds.claimTriesMax; tries++) {
      const record = seen ?? (await findOrMake(place));
      const given = givenOf(record, claim);
      if (given > 0) {
        const claimedMax = limit + record.granted - given;
        const fits = {
          _id: { $eq: place.id },
          claimed: { $lte: claimedMax },
          granted: { $eq: record.granted },
        };
        const forgotten = Object.fromEntries(gone.map((each) => [`holds.${each}`, true as const]));
        const taken = {
          $inc: { claimed: given },
          $set: { [`holds.${owner}`]: { seq, unspent: held + given } },
          ...(gone.length > 0 && { $unset: forgotten }),
        };
        const written = await call(() => quotas.findOneAndUpdate(fits, taken, after));
        if (written) return { given, record: checkQuota(written) };
      } else if (seen === undefined) {
        return { given, record: await findOrMake(place) };
      }
      // What was seen is out of date, or another instance came first.
      seen = undefined;
    }
    throw unavailable({ cause: new Error(`the quota ${place.id} changed at each try of a claim`) });
  }

  async function remove(filter: Filter<QuotaDocument>, limit: number): Promise<number> {
    if (limit <= 0) return 0; // MongoDB takes 0 for no limit.
    const batch = quotas.find(filter).limit(limit).project<Pick<QuotaDocument, "_id">>({ _id: 1 });
    const ids = (await call(() => batch.toArray())).map(({ _id }) => _id);
    if (ids.length > 0) await call(() => quotas.deleteMany({ _id: { $in: ids } }));
    return ids.length;
  }

  return {
    claim: (claims) => Promise.allSettled(claims.map(claimOne)),
    async giveBack(orders) {
      const operations = orders.map(({ id, owner, seq, unspent }) => ({
        updateOne: {
          filter: { _id: { $eq: id }, [`holds.${owner}.seq`]: { $eq: seq } },
          update: { $inc: { claimed: -unspent }, $unset: { [`holds.${owner}`]: "" } },
        },
      }));
      if (operations.length > 0) await call(() => quotas.bulkWrite(operations as never, { ordered: false }));
    },
    grant: (place, { requests, requestId }) =>
      withEvent(async () => {
        const found = await findOrMake(place);
        const isNew = { _id: { $eq: place.id }, grantIds: { $ne: requestId } };
        const update = { $inc: { granted: requests }, $push: { grantIds: requestId } };
        const granted = await call(() => quotas.findOneAndUpdate(isNew, update, after));
        return granted ? checkQuota(granted) : ((await find(place.id)) ?? found);
      }),
    find,
    async newestStartMs(period) {
      const first = { sort: { startTimeMs: -1 }, projection: { startTimeMs: 1 } } as const;
      return (await call(() => quotas.findOne({ period: { $eq: period } }, first)))?.startTimeMs;
    },
    deleteBefore: ({ beforeMs, limit }) => remove({ startTimeMs: { $lt: beforeMs } }, limit),
    deleteOfTeam: (teamId, limit) => remove({ teamId: { $eq: teamId } }, limit),
  };
}

/** Also what has not reached a majority yet: it is what the next conditional write meets. */
const newest = { readConcern: { level: "local" } } as const;
const after = { returnDocument: "after" } as const;

function recordOf(document: QuotaDocument | null): QuotaRecord | undefined {
  return document ? checkQuota(document) : undefined;
}

function checkQuota(document: QuotaDocument): QuotaRecord {
  const { _id, ...facts } = checkRecord(storedQuota, document, `quotas/${document._id}`);
  return { id: _id, ...facts };
}
