import type { KeyService, UpdateKeyRequest } from "#gen/keyrun/v1/key_service_pb.ts";
import type { KeyEvidence } from "../auth/key-evidence.ts";
import type { ServiceMethods } from "../auth/service-methods.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { Clock } from "../clock.ts";
import { readLabel } from "../fields/plain-text.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { cutText } from "../refusal/cut-text.ts";
import { fail, unavailable } from "../refusal/refusal.ts";
import { requireTeam } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { ExpireKeysParts } from "./expire-keys.ts";
import type { KeyEvent } from "./key-events.ts";
import { evidenceOf } from "./key-evidence-of.ts";
import { readExpireTime } from "./key-expiry.ts";
import { keyLifeBounds } from "./key-life-bounds.ts";
import { keyMessage } from "./key-message.ts";
import { keyNotFound } from "./key-not-found.ts";
import type { KeyChange, KeyRecord, KeyStore } from "./key-store.ts";

export interface UpdateKeyParts {
  readonly clock: Pick<Clock, "unixMs">;
  readonly store: KeyStore;
  readonly teams: RecordSource<TeamRecord>;
  readonly changeSecurityState: ChangeSecurityState<"key", FlooredChange<KeyEvidence>>;
  readonly withLastUse: (key: KeyRecord) => KeyRecord;
  readonly publish: (event: KeyEvent) => void;
  readonly expiring: ExpireKeysParts["expiring"];
  /** Throws while an instance of the fleet does not know that keys end. */
  readonly requireUpgraded: () => void;
}

/**
 * `KeyService.UpdateKey`. A label may change at any time. An expiry is only brought forward, and
 * only of a key that is active: the answer waits until no instance can accept the key past it.
 */
export function createUpdateKey(parts: UpdateKeyParts): ServiceMethods<typeof KeyService>["updateKey"] {
  const { store, teams, changeSecurityState, withLastUse, publish } = parts;
  return async (request) => {
    const team = await requireTeam(teams, request.teamId);
    const { keyId } = request;
    if (keyId === "") throw fail("INVALID_ARGUMENT", { param: "key_id", problem: "key_id is required." });
    const asked = readAsked(request, parts.clock.unixMs());
    parts.requireUpgraded();
    for (let tries = 0; tries < keyLifeBounds.changeTriesMax; tries++) {
      const stored = await store.find(keyId);
      if (!stored || stored.teamId !== team.id || stored.pendingSinceMs !== null) {
        throw keyNotFound(team.id, keyId);
      }
      const change = changeOf(stored, asked, parts.clock.unixMs());
      const { expiredTimeMs } = change;
      // As every key that is marked as expired, it has the event of that before the mark.
      if (expiredTimeMs !== undefined) {
        await parts.expiring({ teamId: team.id, keyId, timeMs: expiredTimeMs });
      }
      const changed = await changeSecurityState("key", async () => {
        const { version } = stored;
        const key = await store.update({ teamId: team.id, keyId, version, change });
        const grants = change.expireTimeMs === undefined;
        return (
          key && { id: keyId, version: key.version, teamId: team.id, value: evidenceOf(key), grants, key }
        );
      });
      // Another change came in between, so the key is looked at again.
      if (!changed) continue;
      const key = withLastUse(changed.key);
      publish({ kind: "changed", key });
      return { key: keyMessage(key) };
    }
    throw unavailable();
  };
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
  if (expireTimeMs > nowMs) return { ...relabelled, expireTimeMs };
  return { ...relabelled, expireTimeMs: nowMs, expiredTimeMs: nowMs };
}
