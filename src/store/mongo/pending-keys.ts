import type { Collection } from "mongodb";
import type { KeyRecord, KeyStore } from "../../keys/key-store.ts";
import { activeKey, checkKey, keyOf } from "./checked-key.ts";
import type { KeyDocument } from "./documents.ts";
import { endedSlot } from "./key-slots.ts";
import type { StoreCall } from "./store-call.ts";

const after = { returnDocument: "after" } as const;

/**
 * `KeyStore.revokePending` without transactions. A key stays pending until its predecessor has been
 * released, so what stops in between is done by the next call.
 */
export async function revokePendingKeys(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  { sinceMs, revokeTimeMs, revokedBy, limit, before }: Parameters<KeyStore["revokePending"]>[0],
): ReturnType<KeyStore["revokePending"]> {
  const revoked: KeyRecord[] = [];
  const released: KeyRecord[] = [];
  if (limit <= 0) return { revoked, released }; // MongoDB takes 0 for no limit.
  // Zero, because null is below every number.
  const pending = { pendingSinceMs: { $gte: 0, $lte: sinceMs } };
  const found = keys.find(pending).limit(limit);
  for (const { _id, ...facts } of await call(() => found.toArray())) {
    const one = { _id: { $eq: _id }, ...pending };
    if (facts.revokeTimeMs === null) {
      await before?.({ keyId: _id, teamId: facts.teamId });
      const unrevoked = { ...one, revokeTimeMs: { $eq: null } };
      const revocation = { $set: { revokeTimeMs, revokedBy, slot: endedSlot(_id) }, $inc: { version: 1 } };
      // It may have become usable in between.
      if (!(await call(() => keys.findOneAndUpdate(unrevoked, revocation)))) continue;
    }
    const predecessor = await releasePredecessor(keys, call, { id: _id, ...facts });
    if (predecessor) released.push(predecessor);
    const document = await call(() => keys.findOneAndUpdate(one, { $set: { pendingSinceMs: null } }, after));
    if (document) revoked.push(checkKey(document));
  }
  return { revoked, released };
}

/** The active key that names this one, which is revoked, as its successor names none any more. */
export async function releasePredecessor(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  {
    id,
    teamId,
    replacesKeyId = null,
  }: Pick<KeyDocument, "teamId" | "replacesKeyId"> & { readonly id: string },
): Promise<KeyRecord | undefined> {
  if (replacesKeyId === null) return undefined;
  const naming = { teamId: { $eq: teamId }, ...activeKey, replacedByKeyId: { $eq: id } };
  const release = { $set: { replacedByKeyId: null }, $inc: { version: 1 } };
  const one = { _id: { $eq: replacesKeyId }, ...naming };
  return keyOf(await call(() => keys.findOneAndUpdate(one, release, after)));
}
