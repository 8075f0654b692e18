import {
  type Decide,
  type Decision,
  type LookUpGuard,
  mayRunApp,
  type Question,
  type VerifyKey,
} from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import type { LimitDecision } from "../limit/limiter.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { refusalFrom } from "../refusal/refusal.ts";
import type { Runner } from "../run/runner.ts";
import type { RunEnded } from "../usage/count-runs.ts";

/** Counts the keys that were verified without the store. Only valid keys are counted. */
export function meterVerify(verifyKey: VerifyKey, { cachedKeyHit }: Metrics): VerifyKey {
  return (value, caller, guard) => {
    const verdict = verifyKey(value, caller, guard);
    if (!(verdict instanceof Promise) && verdict.kind === "valid") cachedKeyHit();
    return verdict;
  };
}

/**
 * Counts runs and measures how long they take, for the metrics and for the usage of keys. A run
 * refused because its app is busy counts as a failed run.
 */
export function meterRuns(
  run: Runner,
  { runStarted, runEnded }: Metrics,
  { clock, countRun }: { readonly clock: Clock; readonly countRun: RunEnded },
): Runner {
  return (order) => {
    runStarted();
    const startMs = clock.monotonicMs();
    const ended = (outcome: Parameters<Metrics["runEnded"]>[0]["outcome"]) => {
      const appMs = clock.monotonicMs() - startMs;
      runEnded({ appId: order.app.id, outcome, seconds: appMs / 1000 });
      countRun(order, outcome, appMs);
    };
    const failed = (thrown: unknown) => ended(refusalFrom(thrown).reason);
    try {
      const output = run(order);
      if (output instanceof Promise) output.then(() => ended("OK"), failed);
      else ended("OK");
      return output;
    } catch (thrown) {
      failed(thrown);
      throw thrown;
    }
  };
}

/** Counts the verdicts of `VerifyKey` for each team. A key that is wrong has no team. */
export function meterVerdicts(
  decide: Decide<LimitDecision>,
  { keyVerified }: Pick<Metrics, "keyVerified">,
): Decide<LimitDecision> {
  const count = (decision: Decision<LimitDecision>, { appId = "" }: Question) => {
    if (decision.kind === "invalid") return decision;
    const isForbidden = decision.kind === "admitted" && !mayRunApp(decision.restrictions, appId);
    keyVerified(decision.teamId, isForbidden ? "app_not_allowed" : verdictOf[decision.kind]);
    return decision;
  };
  return (value, question) => {
    const decision = decide(value, question);
    return decision instanceof Promise
      ? decision.then((later) => count(later, question))
      : count(decision, question);
  };
}

const verdictOf = {
  admitted: "valid",
  limited: "limited",
  revoked: "revoked",
  expired: "expired",
} as const;

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
