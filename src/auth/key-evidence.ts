/** What the store says of a key, as far as verifying needs it. It is what the cache of verified keys holds. */
export interface KeyEvidence {
  readonly id: string;
  readonly teamId: string;
  /** HMAC-SHA-256 of the full value. */
  readonly digest: Buffer;
  readonly secretVersion: string;
  readonly revokeTimeMs: number | null;
  /** Void below the key's floor. */
  readonly version: number;
}

/** What a presented value is. */
export type KeyVerdict =
  | { readonly kind: "valid"; readonly keyId: string; readonly teamId: string }
  /** Only where the secret matched: then the owner may know when it was revoked. */
  | {
      readonly kind: "revoked";
      readonly keyId: string;
      readonly teamId: string;
      readonly revokeTimeMs: number;
    }
  | { readonly kind: "invalid" };

/**
 * Does a look-up in the store on behalf of a caller whom nothing is known of yet. The public listener's guard
 * charges an address whose look-ups find no valid key; the internal listener's just does it.
 */
export type LookUpGuard = (address: string, lookUp: () => Promise<KeyVerdict>) => Promise<KeyVerdict>;

/**
 * Verifies a full value. Answers at once, without a promise, where the key's evidence is cached or the value's
 * form rules it out; then the store was not read and the guard not asked.
 */
export type VerifyKey = (
  value: string,
  caller: { readonly address: string },
  guard: LookUpGuard,
) => KeyVerdict | Promise<KeyVerdict>;

/** The guard of callers who are trusted not to guess: it does the look-up. */
export const unguarded: LookUpGuard = (_address, lookUp) => lookUp();
