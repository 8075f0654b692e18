import { setTimeout as sleep } from "node:timers/promises";
import type { Collection } from "mongodb";
import type { KeyStore, RotateKeyOrder, RotateKeyOutcome } from "../../keys/key-store.ts";
import { unavailable } from "../../refusal/refusal.ts";
import { activeKey, checkKey } from "./checked-key.ts";
import type { KeyDocument } from "./documents.ts";
import { findByRequestKey, insertDocument, keyDocumentOf, newest } from "./insert-key.ts";
import { endedSlot, slotNumber, successorSlot } from "./key-slots.ts";
import { isRequestDone, releasePredecessor, settlePendingKeys } from "./pending-keys.ts";
import type { StoreCall } from "./store-call.ts";

const after = { returnDocument: "after" } as const;

/**
 * `KeyStore.rotate` and `settlePending` without transactions. The successor is first written as
 * pending. One conditional write on the old key then decides, and only after it the successor can
 * be used. What stops in between leaves a pending successor: if the old key names it, the rotation
 * is done and is only to be completed, and else nothing has happened.
 *
 * Both writes may be repeated, and are where the store fails: whether the old key has ended should
 * be known.
 */
export function rotationMethods(
  keys: Collection<KeyDocument>,
  call: StoreCall,
): Pick<KeyStore, "rotate" | "settlePending"> {
  return {
    rotate: (order) => rotateKey(keys, call, order),
    settlePending: (order) => settlePendingKeys(keys, call, order),
  };
}

async function rotateKey(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  { teamId, keyId, version, successor, end }: RotateKeyOrder,
): Promise<RotateKeyOutcome> {
  const same = { _id: { $eq: keyId }, teamId: { $eq: teamId }, version: { $eq: version } };
  const one = { ...same, ...activeKey, replacedByKeyId: { $eq: null } };
  const repeatOf = async (id: string): Promise<RotateKeyOutcome> =>
    (await isRequestDone(keys, call, id)) ? { kind: "request_id_used", keyId: id } : { kind: "changed" };
  const used = await findByRequestKey(keys, call, successor);
  if (used !== undefined) return repeatOf(used);
  const old = await call(() => keys.findOne(one, newest));
  if (!old) return { kind: "changed" };
  const number = slotNumber(old.slot);
  if (end.kind === "expire" && (await hasOther(keys, call, { teamId, keyId, number }))) {
    // It may be the successor of a rotation that was done since the old key was read.
    const isSame = await call(() => keys.findOne(one, newest));
    return { kind: isSame ? "predecessor_active" : "changed" };
  }
  const pending = { ...successor, pendingSinceMs: successor.createTimeMs, version: successor.version - 1 };
  const document = keyDocumentOf(pending, successorSlot(teamId, number, successor.id));
  if (!(await insertDocument(keys, call, document))) {
    const winner = await findByRequestKey(keys, call, successor);
    return winner === undefined ? { kind: "changed" } : repeatOf(winner);
  }
  const named = await repeated(async () => {
    const naming = namingOf(keyId, successor.id, end);
    const written = await call(() => keys.findOneAndUpdate(one, naming, after));
    if (written) return written;
    // An earlier try may have written it. A write that changes nothing waits until it is durable.
    const ours = { _id: { $eq: keyId }, replacedByKeyId: { $eq: successor.id } };
    return call(() => keys.findOneAndUpdate(ours, { $max: { version: 1 } }, after));
  });
  if (!named) {
    await call(() => keys.deleteOne({ _id: successor.id }));
    return { kind: "changed" };
  }
  const replaced = checkKey(named);
  try {
    const waiting = { _id: { $eq: successor.id }, revokeTimeMs: { $eq: null } };
    const usable = { $set: { pendingSinceMs: null }, $max: { version: successor.version } };
    const made = await repeated(() => call(() => keys.findOneAndUpdate(waiting, usable, after)));
    if (made) return { kind: "rotated", replaced, successor: checkKey(made) };
    // One that was pending no more is a key like any other, which was used, revoked or replaced.
    const stays = { _id: { $eq: successor.id }, pendingSinceMs: { $eq: null } };
    const wasMade = await repeated(() => call(() => keys.findOne(stays, newest)));
    const released = wasMade ? null : await repeated(() => releasePredecessor(keys, call, successor));
    const cause = unavailable({ cause: new Error("the new key was revoked before it could be used") });
    return { kind: "cut_off", replaced: released ?? replaced, cause };
  } catch (cause) {
    return { kind: "cut_off", replaced, cause };
  }
}

const triesMax = 3;
const waitMs = 100;

/** Does a write that may be repeated, again where it fails, at most `triesMax` times. */
async function repeated<T>(write: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await write();
    } catch (thrown) {
      if (tries >= triesMax) throw thrown;
    }
    await sleep(waitMs * tries);
  }
}

function namingOf(keyId: string, replacedByKeyId: string, end: RotateKeyOrder["end"]) {
  const ending =
    end.kind === "expire"
      ? { expireTimeMs: end.expireTimeMs }
      : { revokeTimeMs: end.revokeTimeMs, revokedBy: end.revokedBy, slot: endedSlot(keyId) };
  return { $set: { replacedByKeyId, ...ending }, $inc: { version: 1 } };
}

/** Whether another key with this number of the team can be used. */
async function hasOther(
  keys: Collection<KeyDocument>,
  call: StoreCall,
  { teamId, keyId, number }: { readonly teamId: string; readonly keyId: string; readonly number: number },
): Promise<boolean> {
  const others = { teamId: { $eq: teamId }, ...activeKey, pendingSinceMs: { $eq: null } };
  const found = await call(() =>
    keys
      .find({ ...others, _id: { $ne: keyId } }, newest)
      .project<{ slot: string }>({ slot: 1 })
      .toArray(),
  );
  return found.some(({ slot }) => slotNumber(slot) === number);
}
