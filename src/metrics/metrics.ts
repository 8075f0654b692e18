import { collectDefaultMetrics, Gauge, Registry } from "@prometheus-io/client";
import { type OutageKind, outageKinds } from "../refusal/refusal.ts";
import { byName, createCounter, gaugesOf } from "./counts.ts";
import {
  type Build,
  buildInfo,
  type CallMeter,
  callMeters,
  type FleetState,
  fleetGauges,
  fleetMeters,
  type ProcessState,
  processGauges,
  type Service,
} from "./process-meters.ts";
import {
  type EndedRun,
  guardMeter,
  type Outcome,
  requestMeters,
  runMeters,
  teamMeters,
  type Verdict,
} from "./request-meters.ts";

/** How a request came in, by its protocol: HTTP with JSON, gRPC (gRPC-Web included), or Connect. */
export const entries = ["rest", "grpc", "connect"] as const;
export type Entry = (typeof entries)[number];

export const storeEntities = ["key", "team", "app", "session", "service_token"] as const;
export type StoreEntity = (typeof storeEntities)[number];

/** What decides a team's limit: the log that all instances share, or what takes its place. */
export const limitModes = ["shared", "share", "refuse"] as const;
export type LimitMode = (typeof limitModes)[number];

/** How a run in the background ends. */
export const backgroundRunEnds = ["succeeded", "failed", "cancelled"] as const;
export type BackgroundRunEnd = (typeof backgroundRunEnds)[number];

/** What is known of a request that has ended. */
export interface EndedRequest {
  /** The team of its key; undefined if it showed no key whose secret was right. */
  readonly teamId: string | undefined;
  /** Undefined for streams, and for what never became a request. */
  readonly seconds: number | undefined;
}

/**
 * What Keyrun counts. Every label has a bounded set of values, so that callers can't make the
 * registry grow. Most exist from the start, so that a rate starts at 0 and not at the first event.
 * No metric has labels for both the team and the app. No method throws.
 */
export interface Metrics {
  /** A request was answered, with success or with this reason of its refusal. */
  requestEnded(entry: Entry, outcome: Outcome, ended: EndedRequest): void;
  /** VerifyKey was asked about a key of the team. */
  keyVerified(teamId: string, verdict: Verdict): void;
  /** A run was handed to its app. `runEnded` follows once. */
  runStarted(): void;
  runEnded(ended: EndedRun): void;
  /** A stream of the app has ended. */
  streamEnded(appId: string, outcome: Outcome): void;
  /** The guard of the app has let a request pass. */
  guardPassed(appId: string): void;
  /** The end of a run in the background of this instance was written. */
  backgroundRunEnded(state: BackgroundRunEnd): void;
  /** Returns the meter of one operation of another service. Call it once for each. */
  callsOf(service: Service, operation: string): CallMeter;
  /** A read reached the store. */
  storeRead(entity: StoreEntity): void;
  /** A key was verified without the store. */
  cachedKeyHit(): void;
  /** A request was refused by its team's rate limit. */
  limitRefused(): void;
  /** A change that may take a right away was known to every instance after this time. */
  changeSettled(seconds: number): void;
  /** Others took this instance for dead, and it has begun anew. */
  fenced(): void;
  /** A request was refused because this process has too much to do. */
  shed(): void;
  /** A request was refused because this process has lost what it needs. */
  outageRefused(kind: OutageKind): void;
  /** This instance has taken its lease, for the first time or again. */
  leaseTaken(): void;
  /** A look-up was refused or delayed because its address has used its allowance. */
  addressAllowanceRefused(): void;
  /** Shows what these say, too. Call it once, when the parts exist. */
  observe(sources: MetricSources): void;
  /**
   * Returns all metrics, with those of the event loop and the process, as text in Prometheus'
   * format or in that of OpenMetrics.
   */
  render(form?: MetricsForm): Promise<string>;
}

/** The media types of the text formats, without their versions. */
export const metricsForms = ["text/plain", "application/openmetrics-text"] as const;
export type MetricsForm = (typeof metricsForms)[number];

/** The whole media types. */
export const metricsTypes: Readonly<Record<MetricsForm, string>> = {
  "text/plain": Registry.PROMETHEUS_CONTENT_TYPE,
  "application/openmetrics-text": Registry.OPENMETRICS_CONTENT_TYPE,
};

/** What is read of Keyrun's parts when the metrics are rendered. */
export interface MetricSources {
  /** The bytes of answers that wait for their callers. */
  readonly unreadAnswerBytes: () => number;
  /** Bytes that runs have reserved. */
  readonly runBytes: () => number;
  readonly process?: () => ProcessState;
  /** Absent: this process is in no fleet. */
  readonly fleet?: (() => FleetState) | undefined;
  /** Absent where nothing can end this process's right to its store: then there is no metric. */
  readonly leaseLeftSeconds?: (() => number) | undefined;
  /** Absent where this process counts alone: then there is no such metric. */
  readonly limitMode?: (() => LimitMode) | undefined;
}

/**
 * How often the event loop is sampled. Each sample wakes an idle process: with the defaults of the
 * library, 10 ms and 100 ms, they took most of the processor time of an idle Keyrun.
 */
const eventLoopSamples = { eventLoopMonitoringPrecision: 100, eventLoopUtilizationTimeout: 1_000 } as const;

export function createMetrics(build: Build): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, ...eventLoopSamples });
  const counter = (name: string, help: string) => createCounter({ name, help, registers })({});

  const cachedKeyHits = counter("keyrun_cached_key_hits_total", "Keys verified without the store.");
  const limitRefusals = counter("keyrun_limit_refusals_total", "Requests refused by their team's limit.");
  const sheds = counter(
    "keyrun_sheds_total",
    "Requests refused because the event loop was late, or because runs have reserved as many bytes as they may.",
  );
  const addressRefusals = counter(
    "keyrun_address_allowance_refusals_total",
    "Look-ups refused or delayed because their address is at its allowance.",
  );
  const requests = requestMeters(registers, entries);
  const teams = teamMeters(registers);
  const runs = runMeters(registers);
  const reads = readCounters(registers);
  const callsOf = callMeters(registers);
  const fleet = fleetMeters(registers);
  buildInfo(registers, build);
  const outages = outageCounters(registers);
  const backgroundRuns = backgroundRunCounters(registers);

  return {
    requestEnded(entry, outcome, { teamId, seconds }) {
      requests.ended(entry, outcome, seconds);
      if (teamId !== undefined) teams.ended(teamId, outcome);
    },
    keyVerified: teams.verified,
    runStarted: runs.started,
    runEnded: runs.ended,
    streamEnded: runs.streamEnded,
    guardPassed: guardMeter(registers),
    backgroundRunEnded: (state) => backgroundRuns[state].add(),
    callsOf,
    storeRead: (entity) => reads[entity].add(),
    cachedKeyHit: cachedKeyHits.add,
    limitRefused: limitRefusals.add,
    changeSettled: fleet.changeSettled,
    fenced: fleet.fenced,
    shed: sheds.add,
    outageRefused: (kind) => outages[kind].add(),
    leaseTaken: fleet.leaseTaken,
    addressAllowanceRefused: addressRefusals.add,
    observe: (sources) => showSources(registers, sources),
    async render(form = "text/plain") {
      const text = await registry.metrics();
      return form === "text/plain" ? text : asOpenMetrics(text);
    },
  };
}

function showSources(registers: Registry[], sources: MetricSources): void {
  const gauge = gaugesOf(registers);
  fleetGauges(registers, sources.fleet);
  if (sources.leaseLeftSeconds) {
    gauge(
      "keyrun_lease_left_seconds",
      "For how long this instance may still admit requests without a word from MongoDB. Close to 5 while all is well.",
      sources.leaseLeftSeconds,
    );
  }
  if (sources.limitMode) limitModeGauge(registers, sources.limitMode);
  if (sources.process) processGauges(registers, sources.process);
  gauge(
    "keyrun_unread_answer_bytes",
    "Bytes of answers that wait in memory until their callers read them.",
    sources.unreadAnswerBytes,
  );
  gauge("keyrun_run_bytes", "Bytes that runs have reserved for bodies, texts and outputs.", sources.runBytes);
}

function limitModeGauge(registers: Registry[], limitMode: () => LimitMode): void {
  new Gauge({
    name: "keyrun_limit_mode",
    help: "1 for what decides the limits of teams: shared (Redis), or the fallback while it does not answer.",
    labelNames: ["mode"],
    registers,
    collect() {
      for (const mode of limitModes) this.set({ mode }, mode === limitMode() ? 1 : 0);
    },
  });
}

/**
 * The same text in the form of OpenMetrics: the family of a counter has no suffix there. The
 * library's own form would take the suffix from the names of the counters for good.
 */
function asOpenMetrics(text: string): string {
  const families = text.replaceAll(/^(# (?:HELP|TYPE) \S+)_total /gm, "$1 ");
  return `${families.replaceAll(/\n{2,}/g, "\n")}# EOF\n`;
}

function outageCounters(registers: Registry[]) {
  const refused = createCounter({
    name: "keyrun_outage_refusals_total",
    help: "Requests refused because this process has no lease on the store, or because Redis does not answer.",
    labelNames: ["cause"],
    registers,
  });
  return byName(outageKinds, (cause) => refused({ cause }));
}

function backgroundRunCounters(registers: Registry[]) {
  const ended = createCounter({
    name: "keyrun_background_runs_ended_total",
    help: "Runs in the background of this instance that ended, by how they ended.",
    labelNames: ["state"],
    registers,
  });
  return byName(backgroundRunEnds, (state) => ended({ state }));
}

function readCounters(registers: Registry[]) {
  const reads = createCounter({
    name: "keyrun_store_reads_total",
    help: "Reads that reached the store, by what was read.",
    labelNames: ["entity"],
    registers,
  });
  return byName(storeEntities, (entity) => reads({ entity }));
}
