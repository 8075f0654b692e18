import type { Collection } from "mongodb";
import { bounds } from "../../bounds.ts";
import { unavailable } from "../../refusal/refusal.ts";
import type {
  InsertServiceTokenOutcome,
  ServiceTokenRecord,
  ServiceTokenStore,
} from "../../service-tokens/service-token-store.ts";
import { checkRecord } from "../records.ts";
import type { ReadConcernOptions } from "./connection.ts";
import {
  type Collections,
  type ServiceTokenDocument,
  serviceTokenDocument,
  storedServiceToken,
} from "./documents.ts";
import { freeSlots, newest, recordUses, slotNumber } from "./key-documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";
import type { WithEvent } from "./with-event.ts";

/** The service tokens in MongoDB. */
export function createServiceTokenStore(
  { serviceTokens }: Collections,
  call: StoreCall,
  withEvent: WithEvent,
  readOptions: ReadConcernOptions = {},
): ServiceTokenStore {
  const after = { returnDocument: "after" } as const;
  const find = async (tokenId: string, read: ReadConcernOptions) =>
    tokenOf(await call(() => serviceTokens.findOne(byId(tokenId), read)));
  return {
    insert: (token, { acceptedMax }) => withEvent(() => insert(serviceTokens, call, token, acceptedMax)),
    find: (tokenId) => find(tokenId, readOptions),
    async list({ limit, after: place, includeRevoked }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const all = [
        ...(includeRevoked ? [] : [accepted]),
        ...(place
          ? [
              {
                $or: [
                  { createTimeMs: { $lt: place.createTimeMs } },
                  { createTimeMs: { $eq: place.createTimeMs }, _id: { $lt: place.id } },
                ],
              },
            ]
          : []),
      ];
      const page = serviceTokens
        .find(all.length > 0 ? { $and: all } : {})
        .sort({ createTimeMs: -1, _id: -1 })
        .limit(limit);
      return (await call(() => page.toArray())).map(checkToken);
    },
    revoke: ({ tokenId, revokeTimeMs, revokedBy }) =>
      withEvent(
        async () => {
          const unrevoked = { ...byId(tokenId), ...accepted };
          const gone = { slot: revokedKey(tokenId), nameKey: revokedKey(tokenId) };
          const revocation = { $set: { revokeTimeMs, revokedBy, ...gone }, $inc: { version: 1 } };
          const revoked = await call(() => serviceTokens.findOneAndUpdate(unrevoked, revocation, after));
          if (revoked) return checkToken(revoked);
          // A write that changes nothing: unlike a read, it waits until the earlier revocation is
          // durable.
          const same = { $max: { version: 1 } };
          return tokenOf(await call(() => serviceTokens.findOneAndUpdate(byId(tokenId), same, after)));
        },
        async (read) => {
          const token = await find(tokenId, read);
          return token?.revokeTimeMs === null ? undefined : { answer: token };
        },
      ),
    delete: (tokenId) =>
      withEvent(async () => void (await call(() => serviceTokens.deleteOne(byId(tokenId))))),
    leaveTeam: (teamId) =>
      withEvent(async () => {
        const naming = { ...accepted, teamIds: { $eq: teamId } };
        const ids = await call(() => serviceTokens.find(naming).project({ _id: 1 }).toArray());
        const left: ServiceTokenRecord[] = [];
        for (const { _id } of ids) {
          const change = { $pull: { teamIds: teamId }, $inc: { version: 1 } };
          const one = { ...byId(String(_id)), ...naming };
          const changed = tokenOf(await call(() => serviceTokens.findOneAndUpdate(one, change, after)));
          if (changed) left.push(changed);
        }
        return left;
      }),
    recordUses: (lastUseTimeMsById) =>
      recordUses(lastUseTimeMsById, (updates) =>
        call(() => serviceTokens.bulkWrite(updates, { ordered: false })),
      ),
    secretVersions: () => call(() => serviceTokens.distinct("secretVersion", accepted)),
  };
}

/** A plain value: FerretDB looks an id up only so. */
const byId = (tokenId: string) => ({ _id: tokenId });

const accepted = { revokeTimeMs: { $eq: null } } as const;

/** Frees the slot and the name of a revoked token for another one. */
function revokedKey(tokenId: string): string {
  return `revoked/${tokenId}`;
}

/** The document of a token. An accepted one has the slot of this number. */
export function serviceTokenDocumentOf(token: ServiceTokenRecord, slot: number): ServiceTokenDocument {
  const { id, ...facts } = token;
  const isRevoked = token.revokeTimeMs !== null;
  const keys = isRevoked
    ? { slot: revokedKey(id), nameKey: revokedKey(id) }
    : { slot: `accepted/${slot}`, nameKey: `accepted/${token.name}` };
  return checkRecord(serviceTokenDocument, { _id: id, ...facts, ...keys }, `serviceTokens/${id}`);
}

/**
 * As for keys (`insertKey`): two unique indexes decide, and an insert that loses reads again.
 * UNAVAILABLE where others were faster `slotAttemptsMax` times.
 */
async function insert(
  serviceTokens: Collection<ServiceTokenDocument>,
  call: StoreCall,
  token: ServiceTokenRecord,
  acceptedMax: number,
): Promise<InsertServiceTokenOutcome> {
  for (let attempt = 0; attempt < bounds.slotAttemptsMax; attempt++) {
    const taken = await call(() =>
      serviceTokens.find(accepted, newest).project({ slot: 1, name: 1 }).toArray(),
    );
    if (taken.some(({ name }) => name === token.name)) return { kind: "name_used" };
    const free = freeSlots(new Set(taken.map(({ slot }) => slotNumber(String(slot)))), acceptedMax);
    const slot = free[attempt % free.length];
    if (slot === undefined) return { kind: "limit_reached" };
    try {
      await call(() => serviceTokens.insertOne(serviceTokenDocumentOf(token, slot)));
      return { kind: "inserted" };
    } catch (thrown) {
      if (!isDuplicate(thrown)) throw thrown;
    }
  }
  throw unavailable({ cause: new Error(`no slot was won in ${bounds.slotAttemptsMax} attempts`) });
}

function tokenOf(document: ServiceTokenDocument | null): ServiceTokenRecord | undefined {
  return document ? checkToken(document) : undefined;
}

function checkToken(document: ServiceTokenDocument): ServiceTokenRecord {
  const { _id, slot, nameKey, ...facts } = checkRecord(
    storedServiceToken,
    document,
    `serviceTokens/${document._id}`,
  );
  return { id: _id, ...facts };
}
