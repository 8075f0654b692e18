import type { Collection } from "mongodb";
import type { KeyRecord, KeyStore } from "../../keys/key-store.ts";
import { activeKey, checkKey, keyOf } from "./checked-key.ts";
import type { KeyDocument } from "./documents.ts";
import { newest, requestKeyOf } from "./insert-key.ts";
import { endedSlot } from "./key-slots.ts";
import type { StoreCall } from "./store-call.ts";

const after = { returnDocument: "after" } as const;

/**
 * `KeyStore.settlePending` without transactions. A key stays pending until everything else is done,
 * so what stops in between is done by the next call.
 */
export async function settlePendingKeys(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  { sinceMs, revokeTimeMs, revokedBy, limit, before }: Parameters<KeyStore["settlePending"]>[0],
): ReturnType<KeyStore["settlePending"]> {
  const settled = {
    completed: [] as KeyRecord[],
    revoked: [] as KeyRecord[],
    predecessors: [] as KeyRecord[],
  };
  if (limit <= 0) return settled; // MongoDB takes 0 for no limit.
  // Zero, because null is below every number.
  const pending = { pendingSinceMs: { $gte: 0, $lte: sinceMs } };
  const found = keys.find(pending).limit(limit);
  const documents = await call(() => found.toArray());
  try {
    for (const document of documents) await settle(document);
  } catch (failed) {
    return { ...settled, failed };
  }
  return settled;

  async function settle({ _id, ...facts }: KeyDocument): Promise<void> {
    const one = { _id: { $eq: _id }, ...pending };
    const unrevoked = { ...one, revokeTimeMs: { $eq: null } };
    if (facts.revokeTimeMs === null) {
      const naming = await decidePending(keys, call, { id: _id, ...facts });
      if (naming) {
        // Told also where the answer to the next write is lost: nobody looks at it again then.
        settled.predecessors.push(naming);
        const usable = { $set: { pendingSinceMs: null }, $inc: { version: 1 } };
        const completed = await call(() => keys.findOneAndUpdate(unrevoked, usable, after));
        if (completed) settled.completed.push(checkKey(completed));
        return;
      }
      await before?.({ keyId: _id, teamId: facts.teamId });
      const requestKey = requestKeyOf({ id: _id, teamId: facts.teamId, requestId: null });
      const ended = { revokeTimeMs, revokedBy, slot: endedSlot(_id), requestId: null, requestKey };
      const revocation = { $set: ended, $inc: { version: 1 } };
      if (!(await call(() => keys.findOneAndUpdate(unrevoked, revocation)))) return;
    }
    const released = await releasePredecessor(keys, call, { id: _id, ...facts });
    if (released) settled.predecessors.push(released);
    const revoked = await call(() => keys.findOneAndUpdate(one, { $set: { pendingSinceMs: null } }, after));
    if (revoked) settled.revoked.push(checkKey(revoked));
  }
}

type PendingKey = Pick<KeyDocument, "teamId" | "replacesKeyId"> & { readonly id: string };

/**
 * Whether the request that made this key is done. If its rotation was cut off before that, or is
 * slow, it is taken back: the key is deleted, and the request can be made anew.
 */
export async function isRequestDone(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  keyId: string,
): Promise<boolean> {
  const document = await call(() => keys.findOne({ _id: { $eq: keyId } }, newest));
  // Another caller has taken it back.
  if (!document) return false;
  const { pendingSinceMs = null, revokeTimeMs } = document;
  if (pendingSinceMs === null || revokeTimeMs !== null) return true;
  if (await decidePending(keys, call, { id: keyId, ...document })) return true;
  await call(() => keys.deleteOne({ _id: { $eq: keyId }, pendingSinceMs: { $gte: 0 } }));
  return false;
}

/**
 * Decides for good whether the rotation of a pending key is done: it is once the predecessor names
 * the key. Returns that predecessor. If it does not name it, it gets another version: then no write
 * that is still on its way can do so.
 */
async function decidePending(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  { id, teamId, replacesKeyId = null }: PendingKey,
): Promise<KeyRecord | undefined> {
  if (replacesKeyId === null) return undefined;
  const one = { _id: { $eq: replacesKeyId }, teamId: { $eq: teamId } };
  const free = { ...one, ...activeKey, replacedByKeyId: { $eq: null } };
  if (await call(() => keys.findOneAndUpdate(free, { $inc: { version: 1 } }))) return undefined;
  // A write that changes nothing: unlike a read, it waits until what it finds is durable.
  const naming = { ...one, replacedByKeyId: { $eq: id } };
  return keyOf(await call(() => keys.findOneAndUpdate(naming, { $max: { version: 1 } }, after)));
}

/** The active key that names this one, which is revoked, as its successor names none any more. */
export async function releasePredecessor(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  { id, teamId, replacesKeyId = null }: PendingKey,
): Promise<KeyRecord | undefined> {
  if (replacesKeyId === null) return undefined;
  const naming = { teamId: { $eq: teamId }, ...activeKey, replacedByKeyId: { $eq: id } };
  const release = { $set: { replacedByKeyId: null }, $inc: { version: 1 } };
  const one = { _id: { $eq: replacesKeyId }, ...naming };
  return keyOf(await call(() => keys.findOneAndUpdate(one, release, after)));
}
