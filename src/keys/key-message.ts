/** What is said of a key over the wire, and what a call about one is refused with. */

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Key, KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { quotaLimitMessage } from "../quota/quota-message.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import type { KeyRecord } from "./key-store.ts";
import { isKeyId } from "./key-value.ts";

/**
 * A stored key as callers see it: without the digest, the secret's version or anything that helps
 * to guess the value. A field of the message that is not named here does not compile.
 */
export function keyMessage(key: KeyRecord) {
  return {
    id: key.id,
    teamId: key.teamId,
    label: key.label,
    redactedValue: key.redactedValue,
    createTime: timestampFromMs(key.createTimeMs),
    createdBy: key.createdBy,
    lastUseTime: timeOf(key.lastUseTimeMs),
    revokeTime: timeOf(key.revokeTimeMs),
    revokedBy: key.revokedBy ?? "",
    state: stateOf(key),
    requestId: key.requestId ?? "",
    expireTime: timeOf(key.expireTimeMs),
    replacesKeyId: key.replacesKeyId ?? "",
    replacedByKeyId: key.replacedByKeyId ?? "",
    appIds: [...key.appIds],
    requestsPerMinute: key.requestsPerMinute ?? undefined,
    quota: key.quota ? quotaLimitMessage(key.quota) : undefined,
  } satisfies Record<Exclude<keyof Key, `$${string}`>, unknown>;
}

/** Absent where there is none. */
function timeOf(ms: number | null) {
  return ms === null ? undefined : timestampFromMs(ms);
}

function stateOf({ revokeTimeMs, expiredTimeMs }: KeyRecord): KeyState {
  if (revokeTimeMs !== null) return KeyState.REVOKED;
  return expiredTimeMs === null ? KeyState.ACTIVE : KeyState.EXPIRED;
}

/** Repeats an id only if it has the form of one: people do send a whole key in its place. */
export function keyNotFound(teamId: string, keyId: string): Refusal {
  const param = "key_id";
  const metadata = { team_id: teamId };
  if (!isKeyId(keyId)) return fail("KEY_NOT_FOUND", { param, metadata });
  const problem = `Team \`${teamId}\` has no key \`${keyId}\`.`;
  return fail("KEY_NOT_FOUND", { param, problem, metadata: { ...metadata, key_id: keyId } });
}
