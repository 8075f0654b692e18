import type { Filter } from "mongodb";
import { bounds } from "../../bounds.ts";
import type { KeyCursor, KeyMatch, KeyStore } from "../../keys/key-store.ts";
import { activeKey, checkKey, keyOf } from "./checked-key.ts";
import type { Collections, KeyDocument } from "./documents.ts";
import type { FreshRead } from "./fresh-read.ts";
import { activeSlots, insertKey } from "./insert-key.ts";
import { expiryMethods } from "./key-expiry.ts";
import { endedSlot } from "./key-slots.ts";
import { rotationMethods } from "./rotate-key.ts";
import type { StoreCall } from "./store-call.ts";

/** The keys in MongoDB. */
export function createKeyStore({ keys }: Collections, call: StoreCall, freshRead: FreshRead = {}): KeyStore {
  return {
    insert: (key, { activeMax }) => insertKey(keys, call, { key, activeMax }),
    async find(keyId) {
      return keyOf(await call(() => keys.findOne(byId(keyId), freshRead)));
    },
    async list({ limit, ...query }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const usable = { ...filterOf(query), pendingSinceMs: { $eq: null } };
      const page = keys.find(usable).sort(newestFirst).limit(limit);
      return (await call(() => page.toArray())).map(checkKey);
    },
    async placeOf(n, query) {
      const cursor = keys
        .find(filterOf(query))
        .sort(newestFirst)
        .skip(Math.max(n, 1) - 1);
      const place = cursor.limit(1).project<KeyPlace>({ _id: 1, createTimeMs: 1 });
      const [found] = await call(() => place.toArray());
      return found && { createTimeMs: found.createTimeMs, id: found._id };
    },
    async countActive(teamId) {
      return new Set((await activeSlots(keys, call, teamId)).map(({ number }) => number)).size;
    },
    async countRevoked(teamId, max) {
      const ofTeam = { teamId: { $eq: teamId } };
      // A range, because the index alone answers it. A comparison with null has to read the keys.
      const revoked = { ...ofTeam, revokeTimeMs: { $gte: 0 } };
      const n = await call(() => keys.countDocuments(revoked, { limit: max }));
      if (n >= max) return n;
      const expired = { ...ofTeam, revokeTimeMs: { $eq: null }, expiredTimeMs: { $gte: 0 } };
      return n + (await call(() => keys.countDocuments(expired, { limit: max - n })));
    },
    ...expiryMethods(keys, call),
    ...rotationMethods(keys, call),
    async revoke({ teamId, keyId, revokeTimeMs, revokedBy }) {
      const one = { _id: { $eq: keyId }, teamId: { $eq: teamId } };
      const revocation = { revokeTimeMs, revokedBy, slot: endedSlot(keyId) };
      const after = { returnDocument: "after" } as const;
      const revoked = await call(() =>
        keys.findOneAndUpdate(
          { ...one, revokeTimeMs: { $eq: null } },
          { $set: revocation, $inc: { version: 1 } },
          after,
        ),
      );
      if (revoked) return checkKey(revoked);
      // A write that changes nothing: unlike a read, it waits until the earlier revocation is
      // durable.
      return keyOf(await call(() => keys.findOneAndUpdate(one, { $max: { version: 1 } }, after)));
    },
    async delete(keyId) {
      await call(() => keys.deleteOne(byId(keyId)));
    },
    async deleteAll(teamId, limit) {
      if (limit <= 0) return [];
      const batch = keys.find({ teamId: { $eq: teamId } }).limit(limit);
      const ids = (await call(() => batch.project({ _id: 1 }).toArray())).map(({ _id }) => String(_id));
      if (ids.length > 0) await call(() => keys.deleteMany({ _id: { $in: ids } }));
      return ids;
    },
    async recordUses(lastUseTimeMsById) {
      const updates = [...lastUseTimeMsById].map(([keyId, timeMs]) => ({
        updateOne: {
          filter: byId(keyId),
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

/** A plain value: FerretDB looks an id up only so. With `$eq` it would read all keys. */
const byId = (keyId: string) => ({ _id: keyId });

const newestFirst = { createTimeMs: -1, _id: -1 } as const;
type KeyPlace = Pick<KeyDocument, "_id" | "createTimeMs">;

function filterOf({
  teamId,
  after,
  until,
  includeRevoked,
  match,
}: Omit<Parameters<KeyStore["list"]>[0], "limit">): Filter<KeyDocument> {
  const all: Filter<KeyDocument>[] = [
    ...(includeRevoked ? [] : [activeKey]),
    // The plain ranges let the index skip what is out of them.
    ...(after ? [{ createTimeMs: { $lte: after.createTimeMs } }, olderThan(after)] : []),
    ...(until ? [{ createTimeMs: { $gte: until.createTimeMs } }, { $nor: [olderThan(until)] }] : []),
    ...(match ? [fitting(match)] : []),
  ];
  return { teamId: { $eq: teamId }, ...(all.length > 0 && { $and: all }) };
}

function fitting({ labelPart, idStart, redactedPart }: KeyMatch): Filter<KeyDocument> {
  const any: Filter<KeyDocument>[] = [];
  if (labelPart !== undefined) any.push({ labelFolded: { $regex: literal(labelPart) } });
  if (idStart !== undefined) any.push({ _id: { $gte: idStart, $lt: `${idStart}\u{10ffff}` } });
  if (redactedPart !== undefined) any.push({ redactedValue: { $regex: literal(redactedPart) } });
  return any.length > 0 ? { $or: any } : { _id: { $in: [] } };
}

/**
 * A pattern that fits exactly this text. Without an operator in it, a match takes one walk through
 * the label, which is short.
 */
function literal(text: string): string {
  return text.replace(/[!-/:-@[-^`{-~]/g, "\\$&");
}

function olderThan({ createTimeMs, id }: KeyCursor): Filter<KeyDocument> {
  return {
    $or: [{ createTimeMs: { $lt: createTimeMs } }, { createTimeMs: { $eq: createTimeMs }, _id: { $lt: id } }],
  };
}
