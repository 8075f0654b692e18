import type { KeyEvidence } from "../auth/key-evidence.ts";
import type { KeyRestrictions } from "../auth/key-restrictions.ts";
import type { KeyRecord } from "./key-store.ts";

/** The part of a stored key that verifying needs. */
export function evidenceOf(key: KeyRecord): KeyEvidence {
  const { id, teamId, secretVersion, revokeTimeMs, expireTimeMs, replacedByKeyId, version } = key;
  return {
    ...{ id, teamId, secretVersion, revokeTimeMs, expireTimeMs, version },
    firstKeyId: key.firstKeyId ?? id,
    digest: Buffer.from(key.digest, "base64url"),
    restrictions: restrictionsOf(key),
    isExpired: key.expiredTimeMs !== null,
    isPending: key.pendingSinceMs !== null,
    end:
      expireTimeMs === null
        ? undefined
        : {
            timeMs: expireTimeMs,
            time: new Date(expireTimeMs).toISOString(),
            isReplaced: replacedByKeyId !== null,
          },
  };
}

function restrictionsOf({ appIds, requestsPerMinute }: KeyRecord): KeyRestrictions | null {
  return appIds.length === 0 && requestsPerMinute === null ? null : { appIds, requestsPerMinute };
}
