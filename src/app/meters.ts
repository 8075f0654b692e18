/** Wrappers that count: from a port or a function to the same, with metrics. */

import {
  type Decide,
  type Decision,
  type KeyVerifier,
  type LookUpGuard,
  mayRunApp,
  type Question,
} from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import type { LimitDecision } from "../limit/limit-decision.ts";
import type { OpenSharedLogs, SharedLogs } from "../limit/redis/shared-logs.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { CallMeter } from "../metrics/process-meters.ts";
import { rowOf } from "../refusal/reasons.ts";
import { Refusal, refusalFrom } from "../refusal/refusal.ts";
import type { RunSlots } from "../run/run-slots.ts";
import type { Runner, StreamRunner } from "../run/runner.ts";
import type { Stores } from "../store/stores.ts";
import type { RunEnded } from "../usage/usage.ts";

/** Counts the keys that were verified without the store. Only valid keys are counted. */
export function meterVerifier(verifier: KeyVerifier, { cachedKeyHit }: Metrics): KeyVerifier {
  return {
    ...verifier,
    peek(value) {
      const verdict = verifier.peek(value);
      if (verdict?.kind === "valid") cachedKeyHit();
      return verdict;
    },
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
  return async (order) => {
    runStarted();
    const startMs = clock.monotonicMs();
    const ended = (outcome: Parameters<Metrics["runEnded"]>[0]["outcome"]) => {
      const appMs = clock.monotonicMs() - startMs;
      runEnded({ appId: order.app.id, outcome, seconds: appMs / 1000 });
      countRun(order, outcome, appMs);
    };
    try {
      const output = await run(order);
      ended("OK");
      return output;
    } catch (thrown) {
      ended(refusalFrom(thrown).reason);
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
  return async (value, question) => count(await decide(value, question), question);
}

const verdictOf = {
  admitted: "valid",
  limited: "limited",
  quota_exceeded: "limited",
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

interface MeterParts {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly metrics: Pick<Metrics, "callsOf">;
}

/**
 * Counts and times every call to the store, each under the name of its port and method. `close`,
 * and what is answered from memory, is no call.
 */
export function meterStores(stores: Stores, parts: MeterParts): Stores {
  return {
    ...stores,
    keys: meterPort("keys", stores.keys, parts),
    teams: meterPort("teams", stores.teams, parts),
    members: meterPort("members", stores.members, parts),
    preview: meterPort("preview", stores.preview, parts),
    apps: meterPort("apps", stores.apps, parts),
    sessions: meterPort("sessions", stores.sessions, parts),
    serviceTokens: meterPort("service_tokens", stores.serviceTokens, parts),
    users: meterPort("users", stores.users, parts),
    quotas: meterPort("quotas", stores.quotas, parts),
    runs: meterPort("runs", stores.runs, parts),
    audit: meterPort("audit", stores.audit, parts),
    ...meterPort("store", { check: stores.check, isEmpty: stores.isEmpty }, parts),
    ...(stores.fleet && { fleet: meterFleet(stores.fleet, parts) }),
  };
}

function meterFleet(fleet: NonNullable<Stores["fleet"]>, parts: MeterParts) {
  const { lockTeam } = meterPort("control", { lockTeam: fleet.lockTeam }, parts);
  return { ...fleet, lockTeam, control: meterPort("control", fleet.control, parts) };
}

/** Counts and times the calls to Redis. One that Redis got too late was not done. */
export function meterSharedLogs(open: OpenSharedLogs, parts: MeterParts): OpenSharedLogs {
  const opening = parts.metrics.callsOf("redis", "open");
  const spending = parts.metrics.callsOf("redis", "spend");
  const meterLogs = (logs: SharedLogs): SharedLogs => ({
    ...logs,
    spend: (asks, giveUpMs) =>
      timed(() => logs.spend(asks, giveUpMs), { ...parts, meter: spending, isDone: Array.isArray }),
  });
  return async (lost) => meterLogs(await timed(() => open(lost), { ...parts, meter: opening }));
}

function meterPort<Port extends object>(name: string, port: Port, parts: MeterParts): Port {
  const methods = Object.entries(port).map(([method, work]: [string, unknown]) => {
    if (typeof work !== "function") return [method, work];
    const operation = `${name}.${method.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
    const meter = parts.metrics.callsOf("store", operation);
    const call = (...given: unknown[]): unknown =>
      timed(() => Reflect.apply(work, port, given), { ...parts, meter });
    return [method, call];
  });
  // The methods are those of the port, with the same arguments and results.
  return Object.fromEntries(methods) as Port;
}

async function timed<Result>(
  work: () => Promise<Result>,
  {
    clock,
    meter,
    isDone = () => true,
  }: {
    readonly clock: Pick<Clock, "monotonicMs">;
    readonly meter: CallMeter;
    readonly isDone?: (result: unknown) => boolean;
  },
): Promise<Result> {
  const startMs = clock.monotonicMs();
  const count = (isSuccess: boolean) => {
    const seconds = (clock.monotonicMs() - startMs) / 1_000;
    if (isSuccess) meter.succeeded(seconds);
    else meter.failed(seconds);
  };
  try {
    const result = await work();
    count(isDone(result));
    return result;
  } catch (thrown) {
    count(isAnswer(thrown));
    throw thrown;
  }
}

/** A store that refuses a request, such as for a name that is taken, has done its work. */
function isAnswer(thrown: unknown): boolean {
  return thrown instanceof Refusal && rowOf(thrown.reason).httpStatus < 500;
}

/**
 * Counts how the streams of each app end, and how many are open: those that have a slot. A stream
 * that is returned early has been left by its caller, or was ended by Keyrun; both are CANCELLED.
 */
export function createStreamMeters({
  slots,
  stream,
  metrics,
  clock,
  countRun,
}: {
  readonly slots: RunSlots;
  readonly stream: StreamRunner;
  readonly metrics: Pick<Metrics, "streamEnded">;
  readonly clock: Clock;
  readonly countRun: RunEnded;
}) {
  let open = 0;
  const meteredSlots: RunSlots = {
    acquire(app, teamId) {
      const release = acquire(app, teamId);
      open += 1;
      return () => {
        open -= 1;
        release();
      };
    },
  };
  const acquire: RunSlots["acquire"] = (app, teamId) => {
    try {
      return slots.acquire(app, teamId);
    } catch (thrown) {
      metrics.streamEnded(app.id, refusalFrom(thrown).reason);
      throw thrown;
    }
  };
  const meteredStream: StreamRunner = async function* (run) {
    const startMs = clock.monotonicMs();
    let outcome: Parameters<Metrics["streamEnded"]>[1] = "CANCELLED";
    try {
      yield* stream(run);
      outcome = "OK";
    } catch (thrown) {
      outcome = refusalFrom(thrown).reason;
      throw thrown;
    } finally {
      metrics.streamEnded(run.app.id, outcome);
      countRun(run, outcome, clock.monotonicMs() - startMs);
    }
  };
  return { slots: meteredSlots, stream: meteredStream, open: () => open };
}
