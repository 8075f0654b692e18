import type { Collection } from "mongodb";
import { bounds } from "../../bounds.ts";
import { foldCase } from "../../fields/fold-case.ts";
import type { InsertKeyOutcome, KeyRecord } from "../../keys/key-store.ts";
import { fail, unavailable } from "../../refusal/refusal.ts";
import { checkRecord } from "../records.ts";
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
  const { id, teamId, ...facts } = key;
  const requestKey = key.requestId === null ? `none/${id}` : `${teamId}/${key.requestId}`;
  for (let attempt = 0; attempt < bounds.slotAttemptsMax; attempt++) {
    const earlier = await call(() => keys.findOne({ requestKey: { $eq: requestKey } }, newest));
    // Without a request id, the request key is made of the key's own id. So it is found only where
    // that id is taken.
    if (earlier && key.requestId === null) throw idTaken(id);
    if (earlier) return { kind: "request_id_used", keyId: earlier._id };
    const free = freeSlots(await usedSlots(keys, call, teamId), activeMax);
    const slot = free[startOf(id, attempt) % free.length];
    if (slot === undefined) return { kind: "limit_reached" };
    const made = { labelFolded: foldCase(key.label), slot: activeSlot(teamId, slot), requestKey };
    const document = { _id: id, teamId, ...facts, ...made };
    if (await insertDocument(keys, call, checkRecord(keyDocument, document, `keys/${id}`))) {
      return { kind: "inserted" };
    }
  }
  const cause = new Error(`no slot was won in ${bounds.slotAttemptsMax} attempts`);
  throw unavailable({ cause });
}

/**
 * Reads what the index sees: writes that have not reached a majority yet count too. Otherwise an
 * insert that lost would not find the winner.
 */
const newest = { readConcern: { level: "local" } } as const;

async function usedSlots(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  teamId: string,
): Promise<Set<number>> {
  const active = { teamId: { $eq: teamId }, revokeTimeMs: { $eq: null } };
  const documents = await call(() => keys.find(active, newest).project({ slot: 1 }).toArray());
  return new Set(documents.map(({ slot }) => slotNumber(String(slot))));
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

async function insertDocument(
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
