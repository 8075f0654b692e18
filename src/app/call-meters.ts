import type { Clock } from "../base/clock.ts";
import type { OpenSharedLogs, SharedLogs } from "../limit/shared/shared-logs.ts";
import type { CallMeter } from "../metrics/call-meters.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { rowOf } from "../refusal/reasons.ts";
import { Refusal } from "../refusal/refusal.ts";
import type { Stores } from "../store/stores.ts";

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
    window: meterPort("window", stores.window, parts),
    runRecords: meterPort("run_records", stores.runRecords, parts),
    // What `during` does is the calls of other ports.
    audit: { ...meterPort("audit", stores.audit, parts), during: stores.audit.during },
    ...meterPort("store", { check: stores.check, isEmpty: stores.isEmpty }, parts),
    ...(stores.fleet && { fleet: meterFleet(stores.fleet, parts) }),
  };
}

function meterFleet(fleet: NonNullable<Stores["fleet"]>, parts: MeterParts) {
  const { holdTeam } = meterPort("control", { holdTeam: fleet.holdTeam }, parts);
  return { ...fleet, holdTeam, control: meterPort("control", fleet.control, parts) };
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

/** Returns the result of the work as it is. Only a promise is counted. */
function timed<Result>(
  work: () => Result,
  {
    clock,
    meter,
    isDone = () => true,
  }: {
    readonly clock: Pick<Clock, "monotonicMs">;
    readonly meter: CallMeter;
    readonly isDone?: (result: unknown) => boolean;
  },
): Result {
  const startMs = clock.monotonicMs();
  const seconds = () => (clock.monotonicMs() - startMs) / 1_000;
  const result = work();
  if (result instanceof Promise) {
    result.then(
      (done) => (isDone(done) ? meter.succeeded(seconds()) : meter.failed(seconds())),
      (thrown) => (isAnswer(thrown) ? meter.succeeded(seconds()) : meter.failed(seconds())),
    );
  }
  return result;
}

/** A store that refuses a request, such as for a name that is taken, has done its work. */
function isAnswer(thrown: unknown): boolean {
  return thrown instanceof Refusal && rowOf(thrown.reason).httpStatus < 500;
}
