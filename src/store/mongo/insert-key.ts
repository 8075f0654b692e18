import type { Collection } from "mongodb";
import { foldCase } from "../../base/fields.ts";
import { bounds } from "../../bounds.ts";
import type { InsertKeyOutcome, KeyRecord } from "../../keys/key-store.ts";
import { fail, unavailable } from "../../refusal/refusal.ts";
import { checkRecord } from "../records.ts";
import { activeKey } from "./checked-key.ts";
import { type KeyDocument, keyDocument } from "./documents.ts";
import { activeSlot, freeSlots, slotNumber } from "./key-slots.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/**
 * `KeyStore.insert` without transactions: two unique indexes decide, and an insert that loses looks
 * again. UNAVAILABLE where other inserts of the team were faster `slotAttemptsMax` times.
 */
export async function insertKey(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  { key, activeMax }: { readonly key: KeyRecord; readonly activeMax: number },
): Promise<InsertKeyOutcome> {
  const { id, teamId } = key;
  for (let attempt = 0; attempt < bounds.slotAttemptsMax; attempt++) {
    const earlier = await findByRequestKey(keys, call, key);
    if (earlier !== undefined) return { kind: "request_id_used", keyId: earlier };
    const used = await activeSlots(keys, call, teamId);
    const free = freeSlots(new Set(used.map(({ number }) => number)), activeMax);
    const slot = free[startOf(id, attempt) % free.length];
    if (slot === undefined) return { kind: "limit_reached" };
    if (!(await insertDocument(keys, call, keyDocumentOf(key, activeSlot(teamId, slot))))) continue;
    // A key that was created and replaced since the look above has left the slot's place to this
    // one, but its successor still has the number.
    const now = await activeSlots(keys, call, teamId);
    if (!now.some((other) => other.number === slot && other.id !== id)) return { kind: "inserted" };
    await call(() => keys.deleteOne({ _id: id }));
  }
  const cause = new Error(`no slot was won in ${bounds.slotAttemptsMax} attempts`);
  throw unavailable({ cause });
}

/** The id of the key that the team has with this key's request id. */
export async function findByRequestKey(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  key: KeyRecord,
): Promise<string | undefined> {
  const earlier = await call(() => keys.findOne({ requestKey: { $eq: requestKeyOf(key) } }, newest));
  // Without a request id, the request key is made of the key's own id. So it is found only where
  // that id is taken.
  if (earlier && key.requestId === null) throw idTaken(key.id);
  return earlier?._id;
}

/** The document of a key that has this slot. */
export function keyDocumentOf(key: KeyRecord, slot: string): KeyDocument {
  const { id, ...facts } = key;
  const made = { labelFolded: foldCase(key.label), slot, requestKey: requestKeyOf(key) };
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

/**
 * Reads what the index sees: writes that have not reached a majority yet count too. Otherwise an
 * insert that lost would not find the winner.
 */
export const newest = { readConcern: { level: "local" } } as const;

/** The numbers of a team's active keys. A key and its successor have the same. */
export async function activeSlots(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  teamId: string,
): Promise<{ readonly id: string; readonly number: number }[]> {
  const active = { teamId: { $eq: teamId }, ...activeKey };
  const documents = await call(() => keys.find(active, newest).project({ slot: 1 }).toArray());
  return documents.map(({ _id, slot }) => ({ id: String(_id), number: slotNumber(String(slot)) }));
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

/** False where the slot, the request id or the id is taken. */
export async function insertDocument(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  document: KeyDocument,
): Promise<boolean> {
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
