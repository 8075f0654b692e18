import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type KeySchema, KeyState } from "#gen/keyrun/v1/key_pb.ts";
import type { KeyRecord } from "./key-store.ts";

/**
 * A stored key as callers see it: without the digest, the secret's version or anything that helps
 * to guess the value.
 */
export function keyMessage(key: KeyRecord): MessageInitShape<typeof KeySchema> {
  return {
    id: key.id,
    teamId: key.teamId,
    label: key.label,
    redactedValue: key.redactedValue,
    createTime: timestampFromMs(key.createTimeMs),
    createdBy: key.createdBy,
    ...(key.lastUseTimeMs !== null && { lastUseTime: timestampFromMs(key.lastUseTimeMs) }),
    ...(key.revokeTimeMs !== null && { revokeTime: timestampFromMs(key.revokeTimeMs) }),
    revokedBy: key.revokedBy ?? "",
    state: stateOf(key),
    requestId: key.requestId ?? "",
    ...(key.expireTimeMs !== null && { expireTime: timestampFromMs(key.expireTimeMs) }),
    replacesKeyId: key.replacesKeyId ?? "",
    replacedByKeyId: key.replacedByKeyId ?? "",
    appIds: [...key.appIds],
    ...(key.requestsPerMinute !== null && { requestsPerMinute: key.requestsPerMinute }),
  };
}

function stateOf({ revokeTimeMs, expiredTimeMs }: KeyRecord): KeyState {
  if (revokeTimeMs !== null) return KeyState.REVOKED;
  return expiredTimeMs === null ? KeyState.ACTIVE : KeyState.EXPIRED;
}
