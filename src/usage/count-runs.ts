import type { Reason } from "../refusal/reasons.ts";
import type { CountUsage } from "./held-usage.ts";

/** To be called with each run or stream of an app that has ended, and how long it took. */
export type RunEnded = (
  run: { readonly teamId: string; readonly keyId: string },
  outcome: Reason | "OK",
  appMs: number,
) => void;

/**
 * A run counts as failed where the app answered wrongly, too late, or could not be reached. A run
 * that its caller left or Keyrun ended is not the app's fault, nor is one that found the app busy.
 */
const appFailures: ReadonlySet<Reason | "OK"> = new Set(["APP_FAILED", "APP_TIMEOUT", "APP_UNREACHABLE"]);

/** Counts each run in the hour in which it ends. */
export function createCountRuns(usage: Pick<CountUsage, "ran">, unixMs: () => number): RunEnded {
  return (run, outcome, appMs) =>
    usage.ran(run, outcome !== "OK" && appFailures.has(outcome), appMs, unixMs());
}
