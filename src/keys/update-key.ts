import type { KeyService, UpdateKeyRequest } from "#gen/keyrun/v1/key_service_pb.ts";
import type { KeyEvidence } from "../auth/key-evidence.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import { readLabel } from "../base/fields.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { cutText, fail, unavailable } from "../refusal/refusal.ts";
import { requireTeam } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { KeyEvent } from "./key-events.ts";
import { keyLifeBounds, readExpireTime } from "./key-life.ts";
import { keyMessage, keyNotFound } from "./key-message.ts";
import type { KeyChange, KeyRecord, KeyStore } from "./key-store.ts";
import type { ExpireKeysParts } from "./key-sweep.ts";
import { changedKey } from "./verify-key.ts";

export interface UpdateKeyParts {
  readonly clock: Pick<Clock, "unixMs">;
  readonly store: KeyStore;
  readonly teams: RecordSource<TeamRecord>;
  readonly changeSecurityState: ChangeSecurityState<"key", FlooredChange<KeyEvidence>>;
  readonly withLastUse: (key: KeyRecord) => KeyRecord;
  readonly publish: (event: KeyEvent) => void;
  readonly expiring: ExpireKeysParts["expiring"];
}

/**
 * `KeyService.UpdateKey`. A label may change at any time. An expiry is only brought forward, and
 * only of a key that is active: the answer waits until no instance can accept the key past it.
 */
export function createUpdateKey(parts: UpdateKeyParts): ServiceMethods<typeof KeyService>["updateKey"] {
  const { store, teams, withLastUse, publish } = parts;
  return async (request) => {
    const team = await requireTeam(teams, request.teamId);
    const { keyId } = request;
    if (keyId === "") throw fail("INVALID_ARGUMENT", { param: "key_id", problem: "key_id is required." });
    const asked = readAsked(request, parts.clock.unixMs());
    for (let tries = 0; tries < keyLifeBounds.changeTriesMax; tries++) {
      const stored = await store.find(keyId);
      if (!stored || stored.teamId !== team.id || stored.pendingSinceMs !== null) {
        throw keyNotFound(team.id, keyId);
      }
      const nowMs = parts.clock.unixMs();
      const written = await write(parts, { stored, change: changeOf(stored, asked, nowMs), nowMs });
      // Another change came in between, so the key is read again.
      if (!written) continue;
      const key = withLastUse(written.key);
      publish({ kind: "changed", key });
      if (written.failed !== undefined) throw written.failed;
      return { key: keyMessage(key) };
    }
    throw unavailable();
  };
}

/**
 * Writes the change; undefined where another one came first. A key whose time is over by it is then
 * marked as the sweep does it: first the event of its expiry, then the mark. If that fails or is
 * cut off, the sweep does it. `failed` says why it failed, and is to be thrown once all are told.
 */
async function write(
  { store, changeSecurityState, expiring }: UpdateKeyParts,
  {
    stored,
    change,
    nowMs,
  }: { readonly stored: KeyRecord; readonly change: KeyChange; readonly nowMs: number },
): Promise<{ readonly key: KeyRecord; readonly failed?: unknown } | undefined> {
  const { id: keyId, teamId, version } = stored;
  const { expireTimeMs = Number.POSITIVE_INFINITY } = change;
  return changeSecurityState(
    "key",
    async () => {
      const key = await store.update({ teamId, keyId, version, change });
      if (!key || expireTimeMs > nowMs) return key && { key };
      const before = () => expiring({ teamId, keyId, timeMs: nowMs });
      try {
        const [marked] = await store.markExpired({ nowMs, limit: 1, teamId, keyId, before });
        // The sweep may have marked it, or somebody revoked it.
        return { key: marked ?? (await store.find(keyId)) ?? key };
      } catch (failed) {
        return { key, failed };
      }
    },
    (written) => written && { ...changedKey(written.key), grants: change.expireTimeMs === undefined },
  );
}

interface Asked {
  readonly label?: string;
  readonly expireTimeMs?: number;
}

function readAsked({ updateMask, label, expireTime }: UpdateKeyRequest, nowMs: number): Asked {
  const paths = new Set(updateMask?.paths);
  if (paths.size === 0) throw wrongMask("update_mask is required: label, expire_time, or both.");
  for (const path of paths) {
    if (path === "label" || path === "expire_time") continue;
    const shown = cutText(path, bounds.refusalNameBytesMax);
    throw wrongMask(`update_mask may hold only label and expire_time, and not ${JSON.stringify(shown)}.`);
  }
  return {
    ...(paths.has("label") && { label: readLabel(label, "label") }),
    ...(paths.has("expire_time") && { expireTimeMs: readExpireTime(expireTime, nowMs) }),
  };
}

function wrongMask(problem: string) {
  return fail("INVALID_ARGUMENT", { param: "update_mask", problem });
}

function changeOf(stored: KeyRecord, { label, expireTimeMs }: Asked, nowMs: number): KeyChange {
  const relabelled = label === undefined ? {} : { label };
  if (expireTimeMs === undefined) return relabelled;
  const { revokeTimeMs, expiredTimeMs } = stored;
  const present = stored.expireTimeMs ?? Number.POSITIVE_INFINITY;
  if (revokeTimeMs !== null || expiredTimeMs !== null || nowMs >= present) {
    throw fail("KEY_ENDED", { metadata: { key_id: stored.id } });
  }
  if (expireTimeMs > present) {
    const problem = `expire_time must not be later than the key's present expiry, ${new Date(present).toISOString()}.`;
    throw fail("INVALID_ARGUMENT", { param: "expire_time", problem });
  }
  return { ...relabelled, expireTimeMs: Math.max(expireTimeMs, nowMs) };
}
