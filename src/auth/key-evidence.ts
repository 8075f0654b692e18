/**
 * What the store says of a key, as far as verifying needs it. The cache of verified keys holds it.
 */
export interface KeyEvidence {
  readonly id: string;
  readonly teamId: string;
  /** HMAC-SHA-256 of the full value. */
  readonly digest: Buffer;
  readonly secretVersion: string;
  readonly revokeTimeMs: number | null;
  /** This evidence is void where its version is below the key's floor. */
  readonly version: number;
}

/** What a presented value proved to be. */
export type KeyVerdict =
  | { readonly kind: "valid"; readonly keyId: string; readonly teamId: string }
  /** Only where the secret matched: its owner may know when the key was revoked. */
  | {
      readonly kind: "revoked";
      readonly keyId: string;
      readonly teamId: string;
      readonly revokeTimeMs: number;
    }
  | { readonly kind: "invalid" };

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
