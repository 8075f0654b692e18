import type { PlanName } from "../settings/config.ts";
import type { KeyVerdict, LookUpGuard } from "./key-evidence.ts";

/** What a decision about a presented key depends on, beside the key. */
export interface Question {
  /** A whole number from 0. It is taken from the team's limit whole or not at all; 0 only looks. */
  readonly cost: number;
  readonly address: string;
  /** Does the look-ups in the store while the caller's key is not known. */
  readonly guard: LookUpGuard;
}

/** A valid key, and the team that it belongs to. */
interface ValidKey {
  readonly keyId: string;
  readonly teamId: string;
  readonly plan: PlanName;
}

/** What was decided. `Rate` is the state of the team's limit after it, as `limit/` describes it. */
export type Decision<Rate> =
  | Exclude<KeyVerdict, { kind: "valid" }>
  /** Nothing was taken. */
  | (ValidKey & { readonly kind: "limited"; readonly rate: Rate })
  | (ValidKey & {
      readonly kind: "admitted";
      readonly rate: Rate;
      /** The team's numbers now, without spending: for an answer that comes later. */
      rateNow(): Rate;
    });

/**
 * Decides whether a key may do something of this cost: the key, the hold on the store, the team,
 * the limit. Synchronous when everything is in memory (the common case): a promise would cost more
 * than the check.
 *
 * Throws, or rejects with, the refusal UNAVAILABLE where nothing can be decided now, and
 * INVALID_ARGUMENT where the cost is more than the plan's whole limit.
 */
export type Decide<Rate> = (value: string, question: Question) => Decision<Rate> | Promise<Decision<Rate>>;
