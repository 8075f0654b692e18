import { randomInt, randomUUID } from "node:crypto";
import { durationFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import type { manage } from "../harness/keyrun.ts";

type Manager = ReturnType<typeof manage>;

/** How many keys each team has: all that it may have, so that rotations run at the bound. */
export const rotatedKeysOfTeam = 3;

const hourMs = 3_600_000;

/** A key of which the caller has the value. */
export interface RotatedKey {
  readonly id: string;
  readonly value: string;
  /** Whether a key before it lives on, so that only a rotation without an overlap is allowed. */
  readonly isOverlapped: boolean;
  /** The answered rotation that replaced it. */
  replaced?: { readonly by: string; readonly overlapMs: number; readonly expireMs: number | undefined };
  /** Calls that replace it, of which no answer has come. */
  readonly unanswered: { readonly overlapMs: number; readonly requestId: string }[];
}

/** A team, with what its callers asked for and were answered. */
export interface RotatedTeam {
  readonly id: string;
  readonly keys: RotatedKey[];
  answered: number;
}

export async function newRotatedTeam({ newTeam, newKey }: Manager): Promise<RotatedTeam> {
  const id = await newTeam();
  const keys: RotatedKey[] = [];
  for (let n = 0; n < rotatedKeysOfTeam; n++) {
    const key = await newKey(id);
    keys.push({ id: key.id, value: key.value, isOverlapped: false, unanswered: [] });
  }
  return { id, keys, answered: 0 };
}

/**
 * Rotates keys of the team one after the other until a call has no answer: with an overlap of an
 * hour or none, and now and then by two calls at once, of which at most one may be done.
 */
export async function rotateUntilKilled(manager: Manager, team: RotatedTeam): Promise<void> {
  for (;;) {
    const heads = team.keys.filter(({ replaced, unanswered }) => !replaced && unanswered.length === 0);
    const old = heads[randomInt(heads.length || 1)];
    if (!old) return;
    const overlapMs = old.isOverlapped || randomInt(2) === 0 ? 0 : hourMs;
    const calls = Array.from({ length: randomInt(4) === 0 ? 2 : 1 }, () =>
      rotateOnce(manager, team, { old, overlapMs, requestId: randomUUID() }),
    );
    const outcomes = await Promise.all(calls);
    if (outcomes.includes("unanswered")) return;
  }
}

interface RotationAsked {
  readonly old: RotatedKey;
  readonly overlapMs: number;
  readonly requestId: string;
}

/**
 * What came of one call: `done`, `unanswered`, or the reason of its refusal with the key that it
 * names.
 */
async function rotateOnce(
  { keys }: Manager,
  team: RotatedTeam,
  { old, overlapMs, requestId }: RotationAsked,
): Promise<string> {
  const request = { teamId: team.id, keyId: old.id, overlap: durationFromMs(overlapMs), requestId };
  try {
    const { key, value, replacedKey } = await keys.rotateKey(request);
    const expireMs = replacedKey?.expireTime && timestampMs(replacedKey.expireTime);
    if (old.replaced) throw new Error(`${old.id} was replaced twice`);
    old.replaced = { by: key?.id ?? "", overlapMs, expireMs };
    const isOverlapped = old.isOverlapped || overlapMs > 0;
    team.keys.push({ id: key?.id ?? "", value, isOverlapped, unanswered: [] });
    team.answered += 1;
    return "done";
  } catch (thrown) {
    if (!(thrown instanceof ConnectError)) throw thrown;
    const [info] = thrown.findDetails(ErrorInfoSchema);
    const isAnswer = thrown.code === Code.AlreadyExists || thrown.code === Code.FailedPrecondition;
    if (isAnswer) return `${info?.reason} ${info?.metadata.key_id ?? ""}`;
    if (!mayBeDone.has(thrown.code)) throw thrown;
    old.unanswered.push({ overlapMs, requestId });
    return "unanswered";
  }
}

/** After these, nobody knows whether the rotation is done. */
const mayBeDone = new Set([Code.Unavailable, Code.Canceled, Code.Aborted]);

/** All keys of the team, also those that have ended, by their ids. */
export async function listTeam({ keys }: Manager, { id: teamId }: RotatedTeam): Promise<Map<string, Key>> {
  const found = new Map<string, Key>();
  let pageToken = "";
  do {
    const page = await keys.listKeys({ teamId, showRevoked: true, pageSize: 100, pageToken });
    for (const key of page.keys) found.set(key.id, key);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return found;
}

/**
 * In which points the answered rotations are not as they were answered, and those without an answer
 * neither undone nor done. A rotation is done as soon as the old key names its successor, and
 * until `isSettled` that one may still be on its way.
 */
export async function wrongRotations(
  manager: Manager,
  team: RotatedTeam,
  { isSettled }: { readonly isSettled: boolean },
): Promise<string[]> {
  const listed = await listTeam(manager, team);
  const wrong: string[] = [];
  for (const key of team.keys) {
    const found = listed.get(key.id);
    const verdict = (await manager.keys.verifyKey({ value: key.value, cost: 0 })).verdict;
    const note = (is: boolean, words: string) => is || wrong.push(`${team.id} ${key.id}: ${words}`);
    const ends = found?.expireTime && timestampMs(found.expireTime);
    const by = found?.replacedByKeyId ?? "";
    if (key.replaced) {
      note(by === key.replaced.by, "names another successor than was answered");
      note(ends === key.replaced.expireMs, "ends at another time than was answered");
    }
    const overlapMs = key.replaced?.overlapMs ?? key.unanswered[0]?.overlapMs;
    const isRevoked = by !== "" && overlapMs === 0;
    note(verdict === (isRevoked ? Verdict.REVOKED : Verdict.VALID), `is answered with verdict ${verdict}`);
    note((ends !== undefined) === (by !== "" && overlapMs !== 0), `was shortened, or not, by ${by}`);
    const successors = [...listed.values()].filter(({ replacesKeyId }) => replacesKeyId === key.id);
    const usable = successors.filter(({ revokedBy }) => revokedBy !== "Keyrun");
    if (by === "") note(usable.length === 0, "has a successor that it does not name");
    else if (key.replaced || isSettled) {
      note(usable.length === 1 && usable[0]?.id === by, `names ${by} of ${usable.length} successors`);
    } else note(usable.length <= 1, `has ${usable.length} successors`);
    if (by === "" || key.replaced) continue;
    const ids = key.unanswered.map(({ requestId }) => requestId);
    const successor = listed.get(by);
    note(!successor || ids.includes(successor.requestId), "names a successor that nobody asked for");
  }
  return wrong;
}

/**
 * Repeats the rotations without an answer. Each is now done, or is told as done before; the key of
 * one that was done before gives way to another, whose value the caller has.
 */
export async function repeatUnanswered(manager: Manager, team: RotatedTeam): Promise<Repeated> {
  const repeated: Repeated = { undone: 0, done: 0, wrong: [] };
  for (const old of team.keys.filter(({ unanswered }) => unanswered.length > 0)) {
    const calls = old.unanswered.splice(0);
    const by = (await listTeam(manager, team)).get(old.id)?.replacedByKeyId ?? "";
    const isAnswered = old.replaced !== undefined;
    const outcomes: string[] = [];
    for (const call of calls) outcomes.push(await rotateOnce(manager, team, { old, ...call }));
    const isRefused = outcomes.every((outcome) => outcome === `KEY_NOT_ROTATABLE ${old.id}`);
    // The other of two calls at once was answered as done.
    if (isAnswered && isRefused) continue;
    const told = outcomes.filter((outcome) => outcome === `REQUEST_ID_USED ${by}`).length;
    const done = outcomes.filter((outcome) => outcome === "done").length;
    const others = outcomes.filter((outcome) => outcome === `KEY_NOT_ROTATABLE ${old.id}`).length;
    const isRight = by === "" ? done === 1 && told === 0 : done === 0 && told === 1;
    if (!isRight || told + done + others !== calls.length) {
      repeated.wrong.push(`${team.id} ${old.id}, replaced by "${by}": ${outcomes.join(", ")}`);
    }
    if (by === "") repeated.undone += 1;
    else {
      repeated.done += 1;
      const overlapMs = calls[0]?.overlapMs ?? 0;
      const found = (await listTeam(manager, team)).get(old.id);
      const expireMs = found?.expireTime && timestampMs(found.expireTime);
      old.replaced = { by, overlapMs, expireMs };
      const lost: RotatedKey = { id: by, value: "", isOverlapped: true, unanswered: [] };
      const outcome = await rotateOnce(manager, team, { old: lost, overlapMs: 0, requestId: "" });
      if (outcome !== "done") repeated.wrong.push(`${team.id} ${by} can't be obtained: ${outcome}`);
    }
  }
  return repeated;
}

export interface Repeated {
  /** Rotations of which nothing, or all, had been done. */
  undone: number;
  done: number;
  readonly wrong: string[];
}
