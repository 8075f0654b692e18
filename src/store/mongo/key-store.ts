import type { Filter } from "mongodb";
import { searchForm } from "../../base/fields.ts";
import { bounds } from "../../bounds.ts";
import type { InsertKeyOutcome, KeyCursor, KeyMatch, KeyRecord, KeyStore } from "../../keys/key-store.ts";
import { unavailable } from "../../refusal/refusal.ts";
import type { ReadConcernOptions } from "./connection.ts";
import type { Collections, KeyDocument } from "./documents.ts";
import {
  activeKey,
  activeSlot,
  activeSlots,
  checkKey,
  endedSlot,
  findByRequestKey,
  freeSlots,
  insertDocument,
  type KeyAccess,
  keyDocumentOf,
  keyOf,
  newest,
  recordUses,
} from "./key-documents.ts";
import { rotateKey, settlePendingKeys } from "./rotate-key.ts";
import type { StoreCall } from "./store-call.ts";
import type { WithEvent } from "./with-event.ts";

/** The keys in MongoDB. The event of an expiry or of a settled key is written before it, aside. */
export function createKeyStore(
  { keys }: Collections,
  call: StoreCall,
  withEvent: WithEvent,
  readOptions: ReadConcernOptions = {},
): KeyStore {
  const access = { keys, call };
  const find = async (keyId: string, read: ReadConcernOptions) =>
    keyOf(await call(() => keys.findOne(byId(keyId), read)));
  return {
    insert: (key, { activeMax }) => withEvent(() => insertKey(access, key, activeMax)),
    find: (keyId) => find(keyId, readOptions),
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
      return new Set((await activeSlots(access, teamId)).map(({ number }) => number)).size;
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
    markExpired: (query) => markExpired(access, query),
    async countExpiring({ fromMs, untilMs, max }) {
      const expiring = { ...activeKey, expireTimeMs: { $gt: fromMs, $lte: untilMs } };
      return call(() => keys.countDocuments(expiring, { limit: max }));
    },
    update: ({ teamId, keyId, version, change }) =>
      withEvent(async () => {
        const one = { _id: { $eq: keyId }, teamId: { $eq: teamId }, version: { $eq: version } };
        const { label } = change;
        const facts = { ...change, ...(label !== undefined && { labelFolded: searchForm(label) }) };
        const update = { $set: facts, $inc: { version: 1 } };
        return keyOf(await call(() => keys.findOneAndUpdate(one, update, after)));
      }),
    rotate: (order) => withEvent(() => rotateKey(access, order)),
    settlePending: (order) => settlePendingKeys(access, order),
    revoke: ({ teamId, keyId, revokeTimeMs, revokedBy }) =>
      withEvent(
        async () => {
          const one = { _id: { $eq: keyId }, teamId: { $eq: teamId } };
          const unrevoked = { ...one, revokeTimeMs: { $eq: null } };
          const ended = { revokeTimeMs, revokedBy, slot: endedSlot(keyId) };
          const revocation = { $set: ended, $inc: { version: 1 } };
          const revoked = await call(() => keys.findOneAndUpdate(unrevoked, revocation, after));
          if (revoked) return checkKey(revoked);
          // A write that changes nothing: unlike a read, it waits until the earlier revocation is
          // durable.
          return keyOf(await call(() => keys.findOneAndUpdate(one, { $max: { version: 1 } }, after)));
        },
        async (read) => {
          const key = await find(keyId, read);
          if (key?.teamId !== teamId) return { answer: undefined };
          return key.revokeTimeMs === null ? undefined : { answer: key };
        },
      ),
    delete: (keyId) => withEvent(async () => void (await call(() => keys.deleteOne(byId(keyId))))),
    deleteAll: (teamId, limit) =>
      withEvent(async () => {
        if (limit <= 0) return [];
        const batch = keys.find({ teamId: { $eq: teamId } }).limit(limit);
        const ids = (await call(() => batch.project({ _id: 1 }).toArray())).map(({ _id }) => String(_id));
        if (ids.length > 0) await call(() => keys.deleteMany({ _id: { $in: ids } }));
        return ids;
      }),
    recordUses: (lastUseTimeMsById) =>
      recordUses(lastUseTimeMsById, (updates) => call(() => keys.bulkWrite(updates, { ordered: false }))),
    secretVersions: () => call(() => keys.distinct("secretVersion")),
  };
}

const after = { returnDocument: "after" } as const;

/** A plain value: FerretDB looks an id up only so. With `$eq` it would read all keys. */
const byId = (keyId: string) => ({ _id: keyId });

const endedKey = { $or: [{ revokeTimeMs: { $gte: 0 } }, { expiredTimeMs: { $gte: 0 } }] };

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
    ...(includeRevoked === "only" ? [endedKey] : includeRevoked ? [] : [activeKey]),
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

/**
 * `KeyStore.insert` without transactions: two unique indexes decide, and an insert that loses looks
 * again. UNAVAILABLE where other inserts of the team were faster `slotAttemptsMax` times.
 */
async function insertKey(access: KeyAccess, key: KeyRecord, activeMax: number): Promise<InsertKeyOutcome> {
  const { id, teamId } = key;
  for (let attempt = 0; attempt < bounds.slotAttemptsMax; attempt++) {
    const earlier = await findByRequestKey(access, key);
    if (earlier !== undefined) return { kind: "request_id_used", keyId: earlier };
    const used = await activeSlots(access, teamId);
    const free = freeSlots(new Set(used.map(({ number }) => number)), activeMax);
    const slot = free[startOf(id, attempt) % free.length];
    if (slot === undefined) return { kind: "limit_reached" };
    if (!(await insertDocument(access, keyDocumentOf(key, activeSlot(teamId, slot))))) continue;
    // A key that was created and replaced since the read above has left the slot's place to this
    // one, but its successor still has the number.
    const now = await activeSlots(access, teamId);
    if (!now.some((other) => other.number === slot && other.id !== id)) return { kind: "inserted" };
    await access.call(() => access.keys.deleteOne({ _id: id }));
  }
  const cause = new Error(`no slot was won in ${bounds.slotAttemptsMax} attempts`);
  throw unavailable({ cause });
}

/**
 * The place in the list of free slots where an insert starts. Concurrent inserts start far apart,
 * so that they seldom choose the same slot.
 */
function startOf(keyId: string, attempt: number): number {
  let sum = attempt;
  for (const character of keyId) sum = (sum * 31 + character.charCodeAt(0)) % 1_000_003;
  return sum;
}

/** `KeyStore.markExpired`. */
async function markExpired(
  { keys, call }: KeyAccess,
  { nowMs, limit, teamId, keyId, before }: Parameters<KeyStore["markExpired"]>[0],
): Promise<KeyRecord[]> {
  if (limit <= 0) return []; // MongoDB takes 0 for no limit.
  // Zero, because null is below every number.
  const due = { ...activeKey, expireTimeMs: { $gte: 0, $lte: nowMs } };
  const filter = {
    ...(teamId !== undefined && { teamId: { $eq: teamId } }),
    ...(keyId !== undefined && { _id: { $eq: keyId } }),
    ...due,
  };
  // What the next insert sees must be seen here too.
  const found = keys.find(filter, newest).limit(limit);
  const ids = await call(() => found.project<{ _id: string; teamId: string }>({ teamId: 1 }).toArray());
  const marked: KeyRecord[] = [];
  for (const { _id, teamId } of ids) {
    await before?.({ keyId: _id, teamId });
    // Another instance may mark it first, and a revocation may come first.
    const mark = { $set: { expiredTimeMs: nowMs, slot: endedSlot(_id) }, $inc: { version: 1 } };
    const one = { _id: { $eq: _id }, ...due };
    const document = await call(() => keys.findOneAndUpdate(one, mark, after));
    if (document) marked.push(checkKey(document));
  }
  return marked;
}
