/**
 * The documents of keys: how a record becomes one, the two values of it by which unique indexes
 * keep a team within its bounds, and the reads and writes that several methods share.
 */

import type { Collection } from "mongodb";
import { searchForm } from "../../base/fields.ts";
import { bounds } from "../../bounds.ts";
import type { KeyRecord } from "../../keys/key-store.ts";
import { fail } from "../../refusal/refusal.ts";
import { checkRecord } from "../records.ts";
import { type KeyDocument, keyDocument, storedKey } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/** The collection of keys, and how a call to it is made. */
export interface KeyAccess {
  readonly keys: Collection<KeyDocument>;
  readonly call: StoreCall;
}

/** The record of a key's document. Throws INTERNAL where the document does not fit. */
export function checkKey(document: KeyDocument): KeyRecord {
  const { _id, labelFolded, slot, requestKey, ...facts } = checkRecord(
    storedKey,
    document,
    `keys/${document._id}`,
  );
  return { id: _id, ...facts };
}

export function keyOf(document: KeyDocument | null): KeyRecord | undefined {
  return document ? checkKey(document) : undefined;
}

/** The document of a key that has this slot. */
export function keyDocumentOf(key: KeyRecord, slot: string): KeyDocument {
  const { id, ...facts } = key;
  const made = { labelFolded: searchForm(key.label), slot, requestKey: requestKeyOf(key) };
  return checkRecord(keyDocument, { _id: id, ...facts, ...made }, `keys/${id}`);
}

/** The value of the index that gives a team's request id to one key. */
export function requestKeyOf({
  id,
  teamId,
  requestId,
}: Pick<KeyRecord, "id" | "teamId" | "requestId">): string {
  return requestId === null ? `none/${id}` : `${teamId}/${requestId}`;
}

/** What the documents of active keys have in common. */
export const activeKey = { revokeTimeMs: { $eq: null }, expiredTimeMs: { $eq: null } } as const;

/**
 * The slots that a team may take next, lowest first; none where it has all the active keys that it
 * may have. `used` holds the numbers of the active keys' slots; some may be past `activeMax` where
 * that was lowered.
 *
 * There is always a number b for which this holds: b plus the active keys at b or above is at most
 * `activeMax`. Slots below b are free to take, because their unique index allows at most b keys
 * there. So the team never has more than `activeMax` active keys, however many inserts choose at
 * once from lists that are out of date.
 */
export function freeSlots(used: ReadonlySet<number>, activeMax: number): number[] {
  const free: number[] = [];
  for (let slot = 0; used.size + free.length < activeMax; slot++) if (!used.has(slot)) free.push(slot);
  return free;
}

/** The slot of an active key: no other active key of the team has it. */
export function activeSlot(teamId: string, slot: number): string {
  return `${teamId}/${slot}`;
}

/** The slot of a revoked or expired key, which frees its old slot for another key. */
export function endedSlot(keyId: string): string {
  return `revoked/${keyId}`;
}

/** The slot of a key that shares the number of one that it replaces: both count as one. */
export function successorSlot(teamId: string, slot: number, keyId: string): string {
  return `${teamId}/${slot}/${keyId}`;
}

/** The number of an active key's slot. */
export function slotNumber(slot: string): number {
  return Number(slot.split("/")[1]);
}

/**
 * Reads what the index sees: writes that have not reached a majority yet count too. Otherwise an
 * insert that lost would not find the winner.
 */
export const newest = { readConcern: { level: "local" } } as const;

/** The numbers of a team's active keys. A key and its successor have the same. */
export async function activeSlots(
  { keys, call }: KeyAccess,
  teamId: string,
): Promise<{ readonly id: string; readonly number: number }[]> {
  const active = { teamId: { $eq: teamId }, ...activeKey };
  const documents = await call(() => keys.find(active, newest).project({ slot: 1 }).toArray());
  return documents.map(({ _id, slot }) => ({ id: String(_id), number: slotNumber(String(slot)) }));
}

/** The id of the key that the team has with this key's request id. */
export async function findByRequestKey(
  { keys, call }: KeyAccess,
  key: KeyRecord,
): Promise<string | undefined> {
  const earlier = await call(() => keys.findOne({ requestKey: { $eq: requestKeyOf(key) } }, newest));
  // Without a request id, the request key is made of the key's own id. So it is found only where
  // that id is taken.
  if (earlier && key.requestId === null) throw idTaken(key.id);
  return earlier?._id;
}

/** False where the slot, the request id or the id is taken. */
export async function insertDocument({ keys, call }: KeyAccess, document: KeyDocument): Promise<boolean> {
  try {
    await call(() => keys.insertOne(document));
    return true;
  } catch (thrown) {
    if (isDuplicate(thrown)) return false;
    throw thrown;
  }
}

function idTaken(keyId: string) {
  return fail("INTERNAL", { cause: new Error(`there is a key ${keyId} already`) });
}

/** Raises the last uses, in messages of a bounded size. `write` does not add what is not there. */
export async function recordUses(
  lastUseTimeMsById: ReadonlyMap<string, number>,
  write: (updates: ReturnType<typeof useOf>[]) => Promise<unknown>,
): Promise<void> {
  const updates = [...lastUseTimeMsById].map(useOf);
  for (let start = 0; start < updates.length; start += bounds.usesPerMessageMax) {
    await write(updates.slice(start, start + bounds.usesPerMessageMax));
  }
}

function useOf([_id, lastUseTimeMs]: [string, number]) {
  return { updateOne: { filter: { _id }, update: { $max: { lastUseTimeMs } }, upsert: false } };
}
