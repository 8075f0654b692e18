import type { Clock } from "../base/clock.ts";
import type { KeyEnd } from "../http/key-end.ts";
import type { KeyRestrictions } from "./key-restrictions.ts";

/**
 * What the store says of a key, as far as verifying needs it. The cache of verified keys holds it.
 */
export interface KeyEvidence {
  readonly id: string;
  /** The first key of the rotations that led to this one; its own id where it is the first. */
  readonly firstKeyId: string;
  readonly teamId: string;
  /** HMAC-SHA-256 of the full value. */
  readonly digest: Buffer;
  readonly secretVersion: string;
  readonly revokeTimeMs: number | null;
  /** Null: the key may do all that its team may. */
  readonly restrictions: KeyRestrictions | null;
  /** From when on the key is refused; null: it does not expire. */
  readonly expireTimeMs: number | null;
  /** The key is marked as expired, and so it stays, whatever the clock does. */
  readonly isExpired: boolean;
  /** The key can't be used yet. */
  readonly isPending: boolean;
  /** For the answers to the key; undefined: it does not expire. */
  readonly end: KeyEnd | undefined;
  /** This evidence is void where its version is below the key's floor. */
  readonly version: number;
}

/** What a presented value proved to be. */
export type KeyVerdict =
  | {
      readonly kind: "valid";
      readonly keyId: string;
      /** As in `KeyEvidence`: the limit of its own is counted for all keys with one first key. */
      readonly firstKeyId: string;
      readonly teamId: string;
      readonly restrictions: KeyRestrictions | null;
      /** Absent: the key does not expire. */
      readonly end?: KeyEnd | undefined;
    }
  /** Only where the secret matched: its owner may know when the key was revoked. */
  | {
      readonly kind: "revoked";
      readonly keyId: string;
      readonly teamId: string;
      readonly revokeTimeMs: number;
    }
  /** As a revocation, which is told before an expiry. */
  | {
      readonly kind: "expired";
      readonly keyId: string;
      readonly teamId: string;
      readonly expireTimeMs: number;
    }
  | { readonly kind: "invalid" };

export const invalidKey: KeyVerdict = Object.freeze({ kind: "invalid" });

/** What a key whose secret matched is at this moment. The clock is read only if the key expires. */
export function verdictOf(evidence: KeyEvidence, clock: Pick<Clock, "unixMs">): KeyVerdict {
  const { id: keyId, firstKeyId, teamId, revokeTimeMs, expireTimeMs, restrictions, end } = evidence;
  if (revokeTimeMs !== null) return { kind: "revoked", keyId, teamId, revokeTimeMs };
  if (evidence.isPending) return invalidKey;
  if (expireTimeMs !== null && (evidence.isExpired || clock.unixMs() >= expireTimeMs)) {
    return { kind: "expired", keyId, teamId, expireTimeMs };
  }
  return { kind: "valid", keyId, firstKeyId, teamId, restrictions, end };
}

/**
 * Does a look-up in the store for a caller without a proven key. The public listener's guard
 * charges an address whose look-ups find no valid key. The internal listener's guard only does the
 * look-up.
 */
export type LookUpGuard = (address: string, lookUp: () => Promise<KeyVerdict>) => Promise<KeyVerdict>;

/**
 * Verifies a full value. Synchronous where the key's evidence is cached or the value's form rules
 * it out; then neither the store nor the guard is used.
 */
export type VerifyKey = (
  value: string,
  caller: { readonly address: string },
  guard: LookUpGuard,
) => KeyVerdict | Promise<KeyVerdict>;

/** The guard for callers that are trusted not to guess: it only does the look-up. */
export const unguarded: LookUpGuard = (_address, lookUp) => lookUp();

/**
 * Checks whether a key that was admitted still has its rights: throws the refusal that a new
 * request would get. Synchronous where the key's evidence is in memory. Rejects with the error of
 * the store if it can't be read.
 */
export type CheckKey = (keyId: string) => void | Promise<void>;
