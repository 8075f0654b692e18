/**
 * What verifying a key yields, and what is then decided about it. These are the types between
 * `keys/`, `admission/` and everything that takes a key.
 */

import type { Clock } from "../base/clock.ts";
import type { KeyEnd } from "../http/headers.ts";
import type { QuotaExceeded, QuotaState } from "../quota/quota.ts";
import type { PlanName, QuotaLimit } from "../settings/config.ts";

/**
 * What the store says of a key, as far as verifying needs it. The cache of verified keys has it.
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

/** Verifies full values. */
export interface KeyVerifier {
  /**
   * The verdict as of now, where the key's evidence is cached or the value's form rules it out.
   * Undefined where the store must be read.
   */
  peek(value: string): KeyVerdict | undefined;
  /** The verdict where `peek` knows none: by one look-up in the store, which the guard does. */
  load(value: string, caller: { readonly address: string }, guard: LookUpGuard): Promise<KeyVerdict>;
}

/** The guard for callers that are trusted not to guess: it only does the look-up. */
export const unguarded: LookUpGuard = (_address, lookUp) => lookUp();

/**
 * Checks whether a key that was admitted still has its rights: rejects with the refusal that a new
 * request would get, or with the error of the store if it can't be read.
 */
export type CheckKey = (keyId: string) => Promise<void>;

/** What a decision about a presented key depends on, beside the key. */
export interface Question {
  /** A whole number from 0. It is taken whole or not at all, from each limit; 0 only reads. */
  readonly cost: number;
  readonly address: string;
  /** Does the look-ups in the store while the caller's key is not known. */
  readonly guard: LookUpGuard;
  /** The app that `VerifyKey` is asked about. A run's app is checked where it is looked up. */
  readonly appId?: string;
}

/** What is known after a decision about a valid key. */
interface Decided<Rate> {
  readonly keyId: string;
  readonly teamId: string;
  readonly plan: PlanName;
  readonly restrictions: KeyRestrictions | null;
  /** When the key will end; undefined: it does not expire. */
  readonly end: KeyEnd | undefined;
  readonly rate: Rate;
  /** As this instance knows them: the team's, if its plan has one, and the key's own. */
  readonly quotas: readonly QuotaState[];
}

/**
 * What was decided. `Rate` is the state of the team's limit after it, and of the key's own, as
 * `limit/` describes it. Only where it is admitted anything was taken.
 */
export type Decision<Rate> =
  | Exclude<KeyVerdict, { kind: "valid" }>
  | (Decided<Rate> & { readonly kind: "limited" })
  | (Decided<Rate> & { readonly kind: "quota_exceeded"; readonly exceeded: QuotaExceeded })
  | (Decided<Rate> & {
      readonly kind: "admitted";
      /** The same numbers now, without spending: for an answer that comes later. */
      rateNow(): Rate;
    });

/**
 * Decides whether a key may do something of this cost: the lease of the store, the key, the team,
 * the limit. Rejects with the refusal UNAVAILABLE where nothing can be decided now, and with
 * INVALID_ARGUMENT where the cost is more than the plan's whole limit, or the key's.
 */
export type Decide<Rate> = (value: string, question: Question) => Promise<Decision<Rate>>;

/** What a key may not do of what its team may. It is fixed when the key is created. */
export interface KeyRestrictions {
  /** The only apps that the key may run; all of its team's where it is empty. */
  readonly appIds: readonly string[];
  /** How many requests a minute the key may make; null: only the team's limit counts. */
  readonly requestsPerMinute: number | null;
  /** Its own quota, for all keys with its first key; null: only the team's quota counts. */
  readonly quota: QuotaLimit | null;
}

/** Whether the key may run the app, if its team may. */
export function mayRunApp(restrictions: KeyRestrictions | null, appId: string): boolean {
  return restrictions === null || restrictions.appIds.length === 0 || restrictions.appIds.includes(appId);
}
