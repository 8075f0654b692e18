import { Gauge, type Registry } from "@prometheus-io/client";
import { createCounter, createHistogram, gaugesOf } from "./counts.ts";

/** The listeners by their place, as `listener` labels name them. */
const listenerNames = ["public", "internal"] as const;
type ListenerName = (typeof listenerNames)[number];

/** `app`: the output of an app. `keys`: the changes of a team's keys, for those who watch them. */
const streamKinds = ["app", "keys"] as const;
type StreamKind = (typeof streamKinds)[number];

/** From which percentage of a quota on a team is counted. */
const quotaShares = ["80", "100"] as const;

/** The state of the process that is read when the metrics are rendered. */
export interface ProcessState {
  /** Open connections, each counted from its acceptance to its end. */
  readonly connections: Readonly<Record<ListenerName, number>>;
  readonly openStreams: Readonly<Record<StreamKind, number>>;
  /** Runs in the background of this instance, and for how long the oldest has run. */
  readonly backgroundRuns: { readonly running: number; readonly oldestSeconds: number };
  /** Keys that were used here within the last 5 minutes. */
  readonly activeKeys: number;
  /** Keys of all teams that expire within 14 days. */
  readonly expiringKeys: number;
  /** How much each team has used of its quota, as far as this instance knows: 1 is all of it. */
  readonly quotaShares: readonly number[];
}

/** The versions of this process. */
export interface Build {
  readonly version: string;
  readonly node: string;
}

export function buildInfo(registers: Registry[], { version, node }: Build): void {
  new Gauge({
    name: "keyrun_build_info",
    help: "1, with the versions of this Keyrun and of its Node as labels.",
    labelNames: ["version", "node"],
    registers,
  }).set({ version, node }, 1);
}

/** What the process has open. */
export function processGauges(registers: Registry[], stateNow: () => ProcessState): void {
  new Gauge({
    name: "keyrun_connections",
    help: "Open connections, by listener.",
    labelNames: ["listener"],
    registers,
    collect() {
      for (const listener of listenerNames) this.set({ listener }, stateNow().connections[listener]);
    },
  });
  new Gauge({
    name: "keyrun_open_streams",
    help: "Open streams: of apps (app), and of the changes of keys that screens and services watch (keys).",
    labelNames: ["kind"],
    registers,
    collect() {
      for (const kind of streamKinds) this.set({ kind }, stateNow().openStreams[kind]);
    },
  });
  new Gauge({
    name: "keyrun_quota_teams",
    help: "Teams that have used 80 or 100 percent of their quota or more, as far as this instance knows.",
    labelNames: ["percent"],
    registers,
    collect() {
      const used = stateNow().quotaShares;
      for (const percent of quotaShares) {
        this.set({ percent }, used.filter((share) => share * 100 >= Number(percent)).length);
      }
    },
  });
  const gauge = gaugesOf(registers);
  gauge(
    "keyrun_background_runs",
    "Runs in the background that are under way at this instance.",
    () => stateNow().backgroundRuns.running,
  );
  gauge(
    "keyrun_oldest_background_run_seconds",
    "How long the oldest run in the background of this instance has been under way; 0 without one.",
    () => stateNow().backgroundRuns.oldestSeconds,
  );
  gauge(
    "keyrun_active_keys",
    "Keys used at this instance (a run, or VerifyKey with a cost) within the last 5 minutes, a second late, at most 100000.",
    () => stateNow().activeKeys,
  );
  gauge(
    "keyrun_expiring_keys",
    "Keys of all teams that expire within 14 days, counted in the store each minute, at most 10000.",
    () => stateNow().expiringKeys,
  );
}

/** What is read of a fleet when the metrics are rendered. */
export interface FleetState {
  /** Whether this instance may admit requests. */
  readonly mayAdmit: boolean;
  /** The live instances that this one knows of, itself among them. */
  readonly instances: number;
}

/** The state of a fleet, as this instance sees it. All is 0 for an instance alone. */
export function fleetGauges(registers: Registry[], stateNow: (() => FleetState) | undefined): void {
  const gauge = gaugesOf(registers);
  gauge(
    "keyrun_fleet_instances",
    "Live instances that this one knows of.",
    () => stateNow?.().instances ?? 0,
  );
  gauge("keyrun_fleet_lost", "1 while this instance may not admit requests, else 0.", () =>
    stateNow?.().mayAdmit === false ? 1 : 0,
  );
}

/** What happens to this instance in its fleet. All is 0 for an instance alone. */
export function fleetMeters(registers: Registry[]) {
  const settled = createHistogram({
    name: "keyrun_fleet_change_seconds",
    help: "How long changes waited until every instance knew of them.",
    // From one round trip to a lease that had to lapse.
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  })({});
  const counter = (name: string, help: string) => createCounter({ name, help, registers })({});
  const fenced = counter("keyrun_fleet_fenced_total", "How often others took this instance for dead.");
  const taken = counter(
    "keyrun_fleet_lease_taken_total",
    "How often this instance took its lease: once at its start, and then each time that it had lost it.",
  );
  return {
    changeSettled: settled.add.bind(settled),
    fenced: fenced.add,
    leaseTaken: taken.add,
  };
}

/** Where Keyrun keeps what it knows. */
const services = ["store", "redis"] as const;
export type Service = (typeof services)[number];

/** Counts and times the calls of one operation. Each call ends in one of the two. */
export interface CallMeter {
  succeeded(seconds: number): void;
  failed(seconds: number): void;
}

/**
 * The calls to other services. The operations are the methods of ports, so the code bounds how many
 * there are. An operation has its series from its first call on.
 */
export function callMeters(registers: Registry[]) {
  const shared = { labelNames: ["operation", "outcome"] as const, registers };
  const durations = {
    store: createHistogram({
      ...shared,
      name: "keyrun_store_call_seconds",
      help: "How long calls to the store took, by operation and whether the store did it (ok) or not (failed).",
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2],
    }),
    redis: createHistogram({
      ...shared,
      name: "keyrun_redis_call_seconds",
      help: "How long calls to Redis took, by operation and whether Redis did it (ok) or not (failed).",
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1],
    }),
  };
  return (service: Service, operation: string): CallMeter => {
    let made: { ok: (seconds: number) => void; failed: (seconds: number) => void } | undefined;
    const make = () => {
      const ok = durations[service]({ operation, outcome: "ok" });
      const failed = durations[service]({ operation, outcome: "failed" });
      made = { ok: (seconds) => ok.add(seconds), failed: (seconds) => failed.add(seconds) };
      return made;
    };
    return {
      succeeded: (seconds) => (made ?? make()).ok(seconds),
      failed: (seconds) => (made ?? make()).failed(seconds),
    };
  };
}
