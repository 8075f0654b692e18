import type { KeyEnd } from "../http/key-end.ts";
import type { PlanName } from "../settings/config.ts";
import type { KeyVerdict, LookUpGuard } from "./key-evidence.ts";
import type { KeyRestrictions } from "./key-restrictions.ts";

/** What a decision about a presented key depends on, beside the key. */
export interface Question {
  /** A whole number from 0. It is taken whole or not at all, from each limit; 0 only looks. */
  readonly cost: number;
  readonly address: string;
  /** Does the look-ups in the store while the caller's key is not known. */
  readonly guard: LookUpGuard;
  /** The app that `VerifyKey` is asked about. A run's app is checked where it is looked up. */
  readonly appId?: string;
}

/** A valid key, and the team that it belongs to. */
interface ValidKey {
  readonly keyId: string;
  readonly teamId: string;
  readonly plan: PlanName;
  readonly restrictions: KeyRestrictions | null;
  /** When the key will end; undefined: it does not expire. */
  readonly end: KeyEnd | undefined;
}

/**
 * What was decided. `Rate` is the state of the team's limit after it, and of the key's own, as
 * `limit/` describes it.
 */
export type Decision<Rate> =
  | Exclude<KeyVerdict, { kind: "valid" }>
  /** Nothing was taken. */
  | (ValidKey & { readonly kind: "limited"; readonly rate: Rate })
  | (ValidKey & {
      readonly kind: "admitted";
      readonly rate: Rate;
      /** The same numbers now, without spending: for an answer that comes later. */
      rateNow(): Rate;
    });

/**
 * Decides whether a key may do something of this cost: the key, the hold on the store, the team,
 * the limit. Synchronous when everything is in memory (the common case): a promise would cost more
 * than the check.
 *
 * Throws, or rejects with, the refusal UNAVAILABLE where nothing can be decided now, and
 * INVALID_ARGUMENT where the cost is more than the plan's whole limit, or the key's.
 */
export type Decide<Rate> = (value: string, question: Question) => Decision<Rate> | Promise<Decision<Rate>>;
