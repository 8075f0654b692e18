import type { Call } from "../../auth/principal.ts";
import { unlessAborted } from "../../http/handler.ts";
import { fail, Refusal } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import type { RunClaim } from "./run-record-store.ts";

/** A run with a key whose outcome is not in the store yet, and those who wait for it. */
export class RunUnderWay {
  readonly claim: RunClaim;
  /** By the monotonic clock: from then on another instance may write that the run has failed. */
  readonly untilMs: number;
  readonly #answered: Promise<RunOutcome>;
  #outcome: RunOutcome | undefined;
  #waiters = 0;

  /** `answered` never rejects. */
  constructor({ claim, untilMs }: { claim: RunClaim; untilMs: number }, answered: Promise<RunOutcome>) {
    this.claim = claim;
    this.untilMs = untilMs;
    this.#answered = answered.then((outcome) => {
      this.#outcome = outcome;
      return outcome;
    });
  }

  /** Waits for the outcome for the caller that began the run. Rejects when the caller is gone. */
  outcome({ signal }: Pick<Call, "signal">): Promise<RunOutcome> {
    return unlessAborted(this.#answered, signal);
  }

  /**
   * Waits for the outcome for a repeat of the request. Rejects with IDEMPOTENCY_KEY_IN_USE shortly
   * before the caller's deadline, and at once if there are too many such callers.
   */
  async outcomeForRepeat(call: Pick<Call, "signal" | "timeoutMs">): Promise<RunOutcome> {
    if (this.#outcome) return this.#outcome;
    if (this.#waiters >= runBounds.runWaitersMax) throw fail("IDEMPOTENCY_KEY_IN_USE");
    this.#waiters += 1;
    const late = Promise.withResolvers<never>();
    const timeoutMs = call.timeoutMs();
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(
            () => late.reject(fail("IDEMPOTENCY_KEY_IN_USE")),
            Math.max(0, timeoutMs - runBounds.runWaitSpareMs),
          );
    try {
      return await Promise.race([this.outcome(call), late.promise]);
    } finally {
      clearTimeout(timer);
      this.#waiters -= 1;
    }
  }
}

/** What came of a run with a key. */
export type RunOutcome =
  /** The app may have started, so the outcome is kept, and the key stands for it. */
  | { readonly kind: "kept"; readonly state: "done"; readonly text: string }
  | { readonly kind: "kept"; readonly state: FailedState; readonly refusal: Refusal }
  /** It is certain that the app has got nothing, so the key is free again. */
  | { readonly kind: "not_started"; readonly refusal: Refusal }
  /** The app may have started, and nobody knows what came of it: the run was cut off. */
  | { readonly kind: "unknown"; readonly refusal: Refusal };

export type FailedState = "app_failed" | "app_timeout" | "app_refused";

/** Waits for an app's output, and never rejects. */
export async function outcomeOf(output: () => string | Promise<string>): Promise<RunOutcome> {
  try {
    return { kind: "kept", state: "done", text: await output() };
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) {
      return { kind: "unknown", refusal: fail("INTERNAL", { cause: thrown, mayHaveRun: true }) };
    }
    if (thrown.reason === "APP_FAILED") return { kind: "kept", state: "app_failed", refusal: thrown };
    if (thrown.reason === "APP_TIMEOUT") return { kind: "kept", state: "app_timeout", refusal: thrown };
    if (thrown.reason === "APP_REFUSED") return { kind: "kept", state: "app_refused", refusal: thrown };
    return { kind: thrown.mayHaveRun ? "unknown" : "not_started", refusal: thrown };
  }
}

/** The refusal of a repeat of a run that ended so. `words` are those of an app that refused. */
export function replayedRefusal(state: FailedState, words = ""): Refusal {
  if (state === "app_refused") return fail("APP_REFUSED", { problem: words, isReplayed: true });
  return fail(state === "app_failed" ? "APP_FAILED" : "APP_TIMEOUT", { isReplayed: true });
}
