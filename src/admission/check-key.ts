import type { KeyEvidence } from "../auth/key-evidence.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";

/**
 * Checks whether a key that was admitted still has its rights: throws the refusal that a new
 * request would get. Synchronous where the key's evidence is in memory. Rejects with the error of
 * the store if it can't be read.
 */
export type CheckKey = (keyId: string) => void | Promise<void>;

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
