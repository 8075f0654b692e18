import { fail, Refusal } from "../../refusal/refusal.ts";
import type { EndState } from "./run-record-store.ts";

/** What came of a run with a key. */
export type RunOutcome =
  /** The app may have started, so the outcome is kept, and the key stands for it. */
  | { readonly kind: "kept"; readonly state: "done"; readonly text: string }
  | { readonly kind: "kept"; readonly state: Exclude<EndState, "done">; readonly refusal: Refusal }
  /** It is certain that the app has got nothing, so the key is free again. */
  | { readonly kind: "not_started"; readonly refusal: Refusal }
  /** The app may have started, and nobody knows what came of it: the run was cut off. */
  | { readonly kind: "unknown"; readonly refusal: Refusal };

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
    return { kind: thrown.mayHaveRun ? "unknown" : "not_started", refusal: thrown };
  }
}

/** The refusal of a repeat of a run that failed in this way. */
export function replayedRefusal(state: Exclude<EndState, "done">): Refusal {
  return fail(state === "app_failed" ? "APP_FAILED" : "APP_TIMEOUT", { isReplayed: true });
}
