import type { Duration } from "@bufbuild/protobuf/wkt";
import type { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { actorOf, type Principal, type ServiceMethods } from "../auth/principal.ts";
import { readRequestId } from "../base/fields.ts";
import { fail, unavailable } from "../refusal/refusal.ts";
import { requireLasting, requireTeam } from "../teams/find-team.ts";
import { keyLifeBounds, successorVersion } from "./key-life.ts";
import { keyMessage, keyNotFound } from "./key-message.ts";
import type { KeyRecord, KeyStore, RotateKeyOrder, RotateKeyOutcome } from "./key-store.ts";
import { type KeyringParts, mintKey } from "./keyring.ts";
import type { UpdateKeyParts } from "./update-key.ts";
import { changedKey } from "./verify-key.ts";

export interface RotateKeyParts extends Omit<KeyringParts, "activeMax" | "lastUseTimeMs">, UpdateKeyParts {
  readonly store: KeyStore;
  readonly expireKeys: (teamId: string) => Promise<void>;
  /** Called once the revocation of a replaced key is final. */
  readonly onRevoked: (key: KeyRecord) => void;
}

/**
 * `KeyService.RotateKey`. The answer waits until no instance can accept the old key past its end.
 * Of several rotations of one key at once, exactly one is done.
 */
export function createRotateKey(parts: RotateKeyParts): ServiceMethods<typeof KeyService>["rotateKey"] {
  const { clock, store, teams, publish, withLastUse } = parts;
  return async (request, { principal, subject }) => {
    const team = await requireTeam(teams, request.teamId);
    const { keyId } = request;
    if (keyId === "") throw fail("INVALID_ARGUMENT", { param: "key_id", problem: "key_id is required." });
    const overlapMs = readOverlap(request.overlap);
    const requestId = readRequestId(request.requestId);
    await parts.expireKeys(team.id);
    for (let tries = 0; tries < keyLifeBounds.changeTriesMax; tries++) {
      const old = await store.find(keyId);
      if (!old || old.teamId !== team.id || old.pendingSinceMs !== null) throw keyNotFound(team.id, keyId);
      const nowMs = clock.unixMs();
      await requireNewRequest(parts, old, requestId);
      await requireRotatable(store, old, nowMs);
      const { order, value } = orderOf(parts, { old, overlapMs, requestId, by: principal, nowMs });
      // Not checked again after the write, as for a new key: what the old key lost can't be given
      // back. A team whose key is rotated has an active one all the while, so it is not deleted.
      await requireLasting(teams, team.id);
      subject.detail = `overlap=${overlapMs / 1000}s replaced_by_key_id=${order.successor.id}`;
      const outcome = await rotate(parts, order);
      if (outcome.kind === "request_id_used") {
        throw requestIdUsed(outcome.keyId);
      }
      if (outcome.kind === "cut_off") throw cutOff(parts, outcome);
      if (outcome.kind === "predecessor_active") throw notRotatable(keyId, predecessorWords);
      // Another change came in between, so the key is read again.
      if (outcome.kind === "changed") continue;
      const { successor } = outcome;
      const replaced = withLastUse(outcome.replaced);
      const isRevoked = replaced.revokeTimeMs !== null;
      publish({ kind: "created", key: successor });
      publish({ kind: isRevoked ? "revoked" : "changed", key: replaced });
      if (isRevoked) parts.onRevoked(replaced);
      return { key: keyMessage(successor), value, replacedKey: keyMessage(replaced) };
    }
    throw unavailable();
  };
}

function rotate(
  { store, changeSecurityState }: RotateKeyParts,
  order: RotateKeyOrder,
): Promise<RotateKeyOutcome> {
  return changeSecurityState(
    "key",
    () => store.rotate(order),
    (outcome) => {
      if (outcome.kind === "cut_off") return changedKey(outcome.replaced);
      if (outcome.kind !== "rotated") return undefined;
      return [{ ...changedKey(outcome.successor), grants: true }, changedKey(outcome.replaced)];
    },
  );
}

/** The replaced key has ended as ordered, or will, and nobody gets the value of the new one. */
function cutOff(
  { publish, withLastUse, onRevoked }: RotateKeyParts,
  { replaced, cause }: Extract<RotateKeyOutcome, { kind: "cut_off" }>,
): unknown {
  const isRevoked = replaced.revokeTimeMs !== null;
  publish({ kind: isRevoked ? "revoked" : "changed", key: withLastUse(replaced) });
  if (isRevoked) onRevoked(replaced);
  return cause;
}

function orderOf(
  parts: RotateKeyParts,
  {
    old,
    overlapMs,
    requestId,
    by,
    nowMs,
  }: {
    readonly old: KeyRecord;
    readonly overlapMs: number;
    readonly requestId: string | null;
    readonly by: Principal;
    readonly nowMs: number;
  },
) {
  const { teamId, expireTimeMs } = old;
  // An update may have left the old key less than a new one must have.
  const spanMs = Math.max((expireTimeMs ?? 0) - old.createTimeMs, keyLifeBounds.expiryMsMin);
  const spanEndMs = expireTimeMs === null ? null : nowMs + spanMs;
  const { minted, value } = mintKey(parts, by);
  const successor: KeyRecord = {
    ...old,
    ...minted,
    requestId,
    expireTimeMs: spanEndMs,
    replacesKeyId: old.id,
    firstKeyId: old.firstKeyId ?? old.id,
    version: successorVersion,
  };
  const end: RotateKeyOrder["end"] =
    overlapMs === 0
      ? { kind: "revoke", revokeTimeMs: nowMs, revokedBy: actorOf(by) }
      : {
          kind: "expire",
          expireTimeMs: Math.min(expireTimeMs ?? Number.POSITIVE_INFINITY, nowMs + overlapMs),
        };
  return { order: { teamId, keyId: old.id, version: old.version, successor, end }, value };
}

/** A repeat of the request that has replaced the key learns so, and not that it was replaced. */
async function requireNewRequest(
  { store }: RotateKeyParts,
  { replacedByKeyId }: KeyRecord,
  requestId: string | null,
): Promise<void> {
  if (replacedByKeyId === null || requestId === null) return;
  const successor = await store.find(replacedByKeyId);
  if (successor?.requestId === requestId) throw requestIdUsed(replacedByKeyId);
}

function requestIdUsed(keyId: string) {
  return fail("REQUEST_ID_USED", { param: "request_id", metadata: { key_id: keyId } });
}

async function requireRotatable(store: KeyStore, key: KeyRecord, nowMs: number): Promise<void> {
  const end = endOf(key, nowMs);
  if (end !== undefined) throw notRotatable(key.id, `The key ${end}. Create a new one.`);
  if (key.replacedByKeyId !== null) throw notRotatable(key.id, await replacedWords(store, key, nowMs));
}

/** How the key has ended; undefined for one that is active. */
function endOf({ revokeTimeMs, expiredTimeMs, expireTimeMs }: KeyRecord, nowMs: number): string | undefined {
  if (revokeTimeMs !== null) return "is revoked";
  const isOver = expiredTimeMs !== null || nowMs >= (expireTimeMs ?? Number.POSITIVE_INFINITY);
  return isOver ? "has expired" : undefined;
}

/** What to do in place of rotating a key that was replaced: only its newest successor may be. */
async function replacedWords(store: KeyStore, key: KeyRecord, nowMs: number): Promise<string> {
  let newest = key;
  for (let read = 0; newest.replacedByKeyId !== null; read++) {
    const next =
      read < keyLifeBounds.successorsReadMax ? await store.find(newest.replacedByKeyId) : undefined;
    if (!next) return "The key was replaced more than once. List the keys, and rotate the newest one.";
    newest = next;
  }
  const end = endOf(newest, nowMs);
  if (end === undefined) return `The key was replaced by \`${newest.id}\`. Rotate that one.`;
  return `The key was replaced by \`${newest.id}\`, which ${end}. Create a new one.`;
}

const predecessorWords =
  "A key that this one replaced still works, so this one can only be rotated without an overlap.";

function notRotatable(keyId: string, problem: string) {
  return fail("KEY_NOT_ROTATABLE", { problem, metadata: { key_id: keyId } });
}

/** Rounded up: only an overlap of exactly 0 revokes the old key at once. */
function readOverlap(overlap: Duration | undefined): number {
  if (!overlap) return 0;
  const { seconds, nanos } = overlap;
  const ms = Number(seconds) * 1_000 + Math.ceil(nanos / 1e6);
  if (seconds >= 0n && nanos >= 0 && ms <= keyLifeBounds.overlapMsMax) return ms;
  throw fail("INVALID_ARGUMENT", { param: "overlap", problem: "overlap must be from 0 to 30 days." });
}
