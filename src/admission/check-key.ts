import type { CheckKey, KeyEvidence } from "../auth/key-evidence.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";

export function createCheckKey(keys: RecordSource<KeyEvidence>): CheckKey {
  return (keyId) => {
    const held = keys.peek(keyId);
    return held === undefined ? keys.load(keyId).then(check) : check(held);
  };
}

function check(evidence: KeyEvidence | null | undefined): void {
  if (!evidence) throw fail("INVALID_API_KEY");
  if (evidence.revokeTimeMs !== null) throw revoked(evidence.revokeTimeMs);
}

/** The refusal of a key that was revoked. Only for its owner. */
export function revoked(revokeTimeMs: number): Refusal {
  return fail("REVOKED_API_KEY", { metadata: { revoke_time: new Date(revokeTimeMs).toISOString() } });
}
