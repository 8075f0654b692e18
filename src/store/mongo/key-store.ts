import type { Filter } from "mongodb";
import { bounds } from "../../bounds.ts";
import type { KeyCursor, KeyRecord, KeyStore } from "../../keys/key-store.ts";
import { checkRecord } from "../records.ts";
import { type Collections, type KeyDocument, keyDocument } from "./documents.ts";
import { insertKey } from "./insert-key.ts";
import { revokedSlot } from "./key-slots.ts";
import type { StoreCall } from "./store-call.ts";

/** The keys in MongoDB. */
export function createKeyStore({ keys }: Collections, call: StoreCall): KeyStore {
  return {
    insert: (key, { activeMax }) => insertKey(keys, call, { key, activeMax }),
    async find(keyId) {
      return keyOf(await call(() => keys.findOne({ _id: { $eq: keyId } })));
    },
    async list({ teamId, limit, after, includeRevoked }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const query = {
        teamId: { $eq: teamId },
        ...(includeRevoked ? {} : active),
        ...(after && olderThan(after)),
      };
      const page = keys.find(query).sort({ createTimeMs: -1, _id: -1 }).limit(limit);
      return (await call(() => page.toArray())).map(checkKey);
    },
    countActive: (teamId) => call(() => keys.countDocuments({ teamId: { $eq: teamId }, ...active })),
    async revoke({ teamId, keyId, revokeTimeMs, revokedBy }) {
      const one = { _id: { $eq: keyId }, teamId: { $eq: teamId } };
      const revocation = { revokeTimeMs, revokedBy, version: 2, slot: revokedSlot(keyId) };
      const after = { returnDocument: "after" } as const;
      const revoked = await call(() =>
        keys.findOneAndUpdate({ ...one, ...active }, { $set: revocation }, after),
      );
      if (revoked) return checkKey(revoked);
      // A write that changes nothing: unlike a read, it waits until the earlier revocation is
      // durable.
      return keyOf(await call(() => keys.findOneAndUpdate(one, { $max: { version: 2 } }, after)));
    },
    async recordUses(lastUseTimeMsById) {
      const updates = [...lastUseTimeMsById].map(([keyId, timeMs]) => ({
        updateOne: {
          filter: { _id: { $eq: keyId } },
          update: { $max: { lastUseTimeMs: timeMs } },
          upsert: false,
        },
      }));
      for (let start = 0; start < updates.length; start += bounds.usesPerMessageMax) {
        const message = updates.slice(start, start + bounds.usesPerMessageMax);
        await call(() => keys.bulkWrite(message, { ordered: false }));
      }
    },
    async secretVersions() {
      return call(() => keys.distinct("secretVersion"));
    },
  };
}

const active = { revokeTimeMs: { $eq: null } } as const;

function olderThan({ createTimeMs, id }: KeyCursor): Filter<KeyDocument> {
  return {
    $or: [{ createTimeMs: { $lt: createTimeMs } }, { createTimeMs: { $eq: createTimeMs }, _id: { $lt: id } }],
  };
}

function keyOf(document: KeyDocument | null): KeyRecord | undefined {
  return document ? checkKey(document) : undefined;
}

function checkKey(document: KeyDocument): KeyRecord {
  const { _id, slot, requestKey, ...facts } = checkRecord(keyDocument, document, `keys/${document._id}`);
  return { id: _id, ...facts };
}
