import type { LookUpGuard, VerifyKey } from "../auth/key-evidence.ts";
import type { Clock } from "../clock.ts";
import type { Metrics } from "../metrics.ts";
import type { Runner } from "../run/runner.ts";

/** Counts the keys that were verified without the store. Only valid keys are counted. */
export function meterVerify(verifyKey: VerifyKey, { cachedKeyHit }: Metrics): VerifyKey {
  return (value, caller, guard) => {
    const verdict = verifyKey(value, caller, guard);
    if (!(verdict instanceof Promise) && verdict.kind === "valid") cachedKeyHit();
    return verdict;
  };
}

/**
 * Counts runs and measures how long they take. A run refused because its app is busy counts as a
 * failed run.
 */
export function meterRuns(run: Runner, { runStarted }: Metrics, clock: Clock): Runner {
  return (order) => {
    const ended = runStarted();
    const startMs = clock.monotonicMs();
    const output = run(order);
    const report = (succeeded: boolean) =>
      ended({ seconds: (clock.monotonicMs() - startMs) / 1000, succeeded });
    if (output instanceof Promise) {
      output.then(
        () => report(true),
        () => report(false),
      );
    } else report(true);
    return output;
  };
}

/** Counts the look-ups that did not start at once because their address has used its allowance. */
export function meterLookUps(guard: LookUpGuard, { addressAllowanceRefused }: Metrics): LookUpGuard {
  return (address, lookUp) => {
    let started = false;
    const verdict = guard(address, () => {
      started = true;
      return lookUp();
    });
    if (!started) addressAllowanceRefused();
    return verdict;
  };
}
