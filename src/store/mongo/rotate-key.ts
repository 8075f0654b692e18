import { setTimeout as sleep } from "node:timers/promises";
import type { KeyRecord, KeyStore, RotateKeyOrder, RotateKeyOutcome } from "../../keys/key-store.ts";
import { unavailable } from "../../refusal/refusal.ts";
import type { KeyDocument } from "./documents.ts";
import {
  activeKey,
  checkKey,
  endedSlot,
  findByRequestKey,
  insertDocument,
  type KeyAccess,
  keyDocumentOf,
  keyOf,
  newest,
  requestKeyOf,
  slotNumber,
  successorSlot,
} from "./key-documents.ts";

const after = { returnDocument: "after" } as const;

/**
 * `KeyStore.rotate` without transactions. The successor is first written as pending. One
 * conditional write on the old key then decides, and only after it the successor can be used. What
 * stops in between leaves a pending successor: if the old key names it, the rotation is done and is
 * only to be completed, and else nothing has happened.
 *
 * Both writes may be repeated, and are where the store fails: whether the old key has ended should
 * be known.
 */
export async function rotateKey(
  access: KeyAccess,
  { teamId, keyId, version, successor, end }: RotateKeyOrder,
): Promise<RotateKeyOutcome> {
  const { keys, call } = access;
  const same = { _id: { $eq: keyId }, teamId: { $eq: teamId }, version: { $eq: version } };
  const one = { ...same, ...activeKey, replacedByKeyId: { $eq: null } };
  const repeatOf = async (id: string): Promise<RotateKeyOutcome> =>
    (await isRequestDone(access, id)) ? { kind: "request_id_used", keyId: id } : { kind: "changed" };
  const used = await findByRequestKey(access, successor);
  if (used !== undefined) return repeatOf(used);
  const old = await call(() => keys.findOne(one, newest));
  if (!old) return { kind: "changed" };
  const number = slotNumber(old.slot);
  if (end.kind === "expire" && (await hasOther(access, { teamId, keyId, number }))) {
    // It may be the successor of a rotation that was done since the old key was read.
    const isSame = await call(() => keys.findOne(one, newest));
    return { kind: isSame ? "predecessor_active" : "changed" };
  }
  const pending = { ...successor, pendingSinceMs: successor.createTimeMs, version: successor.version - 1 };
  const document = keyDocumentOf(pending, successorSlot(teamId, number, successor.id));
  if (!(await insertDocument(access, document))) {
    const winner = await findByRequestKey(access, successor);
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
    const released = wasMade ? null : await repeated(() => releasePredecessor(access, successor));
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
  { keys, call }: KeyAccess,
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

/**
 * `KeyStore.settlePending` without transactions. A key stays pending until everything else is done,
 * so what stops in between is done by the next call.
 */
export async function settlePendingKeys(
  access: KeyAccess,
  { sinceMs, revokeTimeMs, revokedBy, limit, before }: Parameters<KeyStore["settlePending"]>[0],
): ReturnType<KeyStore["settlePending"]> {
  const { keys, call } = access;
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
      const naming = await decidePending(access, { id: _id, ...facts });
      if (naming) {
        // Before the next write: if its answer is lost, nobody reads this key again.
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
    const released = await releasePredecessor(access, { id: _id, ...facts });
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
async function isRequestDone(access: KeyAccess, keyId: string): Promise<boolean> {
  const { keys, call } = access;
  const document = await call(() => keys.findOne({ _id: { $eq: keyId } }, newest));
  // Another caller has taken it back.
  if (!document) return false;
  const { pendingSinceMs = null, revokeTimeMs } = document;
  if (pendingSinceMs === null || revokeTimeMs !== null) return true;
  if (await decidePending(access, { id: keyId, ...document })) return true;
  await call(() => keys.deleteOne({ _id: { $eq: keyId }, pendingSinceMs: { $gte: 0 } }));
  return false;
}

/**
 * Decides for good whether the rotation of a pending key is done: it is once the predecessor names
 * the key. Returns that predecessor. If it does not name it, it gets another version: then no write
 * that is still on its way can do so.
 */
async function decidePending(
  { keys, call }: KeyAccess,
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
async function releasePredecessor(
  { keys, call }: KeyAccess,
  { id, teamId, replacesKeyId = null }: PendingKey,
): Promise<KeyRecord | undefined> {
  if (replacesKeyId === null) return undefined;
  const naming = { teamId: { $eq: teamId }, ...activeKey, replacedByKeyId: { $eq: id } };
  const release = { $set: { replacedByKeyId: null }, $inc: { version: 1 } };
  const one = { _id: { $eq: replacesKeyId }, ...naming };
  return keyOf(await call(() => keys.findOneAndUpdate(one, release, after)));
}
