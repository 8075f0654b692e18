import { type CheckKey, type KeyEvidence, verdictOf } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";

export function createCheckKey(keys: RecordSource<KeyEvidence>, clock: Pick<Clock, "unixMs">): CheckKey {
  const check = (evidence: KeyEvidence | null | undefined): void => {
    const verdict = evidence && verdictOf(evidence, clock);
    if (verdict?.kind === "valid") return;
    if (verdict?.kind === "revoked") throw revoked(verdict.revokeTimeMs);
    if (verdict?.kind === "expired") throw expired(verdict.expireTimeMs);
    throw fail("INVALID_API_KEY");
  };
  return (keyId) => {
    const held = keys.peek(keyId);
    return held === undefined ? keys.load(keyId).then(check) : check(held);
  };
}

/** The refusal of a key that was revoked. Only for its owner. */
export function revoked(revokeTimeMs: number): Refusal {
  return fail("REVOKED_API_KEY", { metadata: { revoke_time: new Date(revokeTimeMs).toISOString() } });
}

/** The refusal of a key whose time is over. Only for its owner. */
export function expired(expireTimeMs: number): Refusal {
  return fail("EXPIRED_API_KEY", { metadata: { expire_time: new Date(expireTimeMs).toISOString() } });
}
