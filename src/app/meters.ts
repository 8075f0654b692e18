import type { LookUpGuard, VerifyKey } from "../auth/key-evidence.ts";
import type { Clock } from "../clock.ts";
import type { Metrics } from "../metrics.ts";
import type { Runner } from "../run/runner.ts";

/** Counts the keys that were verified without the store: good ones, since of others little was held. */
export function meterVerify(verifyKey: VerifyKey, { cachedKeyHit }: Metrics): VerifyKey {
  return (value, caller, guard) => {
    const verdict = verifyKey(value, caller, guard);
    if (!(verdict instanceof Promise) && verdict.kind === "valid") cachedKeyHit();
    return verdict;
  };
}

/** Counts the runs and times them; a run that found its app busy counts as one that failed at once. */
export function meterRuns(run: Runner, { runStarted }: Metrics, clock: Clock): Runner {
  return (order) => {
    const ended = runStarted();
    const startMs = clock.monotonicMs();
    const output = run(order);
    const tell = (succeeded: boolean) =>
      ended({ seconds: (clock.monotonicMs() - startMs) / 1000, succeeded });
    if (output instanceof Promise) {
      output.then(
        () => tell(true),
        () => tell(false),
      );
    } else tell(true);
    return output;
  };
}

/** Counts the look-ups that did not start at once: their address is at its allowance. */
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
