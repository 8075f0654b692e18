import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "@prometheus-io/client";
import { type Reason, reasons } from "./refusal/reasons.ts";

/** How a request came in, by its protocol: HTTP with JSON, gRPC (gRPC-Web included), or Connect. */
export const entries = ["rest", "grpc", "connect"] as const;
export type Entry = (typeof entries)[number];

export const storeEntities = ["key", "team", "app", "session"] as const;
export type StoreEntity = (typeof storeEntities)[number];

/**
 * What Keyrun counts. Every label has a fixed set of values, and all of them exist from the start.
 * So callers can't make the registry grow, and a rate starts at 0 and not at the first event. No
 * method throws.
 */
export interface Metrics {
  /** A request was answered, with success or with this reason of its refusal. */
  requestEnded(entry: Entry, outcome: "OK" | Reason): void;
  /** A run was handed to its app. Call the returned function once, when the run has ended. */
  runStarted(): (ended: { seconds: number; succeeded: boolean }) => void;
  /** A read reached the store. */
  storeRead(entity: StoreEntity): void;
  /** A key was verified without the store. */
  cachedKeyHit(): void;
  /** A request was refused by its team's rate limit. */
  limitRefused(): void;
  /** A look-up was refused or delayed because its address has used its allowance. */
  addressAllowanceRefused(): void;
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

/** What is read when the metrics are rendered. */
export interface MetricSources {
  /** The bytes of answers that wait for their callers. */
  readonly unreadAnswerBytes: () => number;
}

export function createMetrics(sources: MetricSources = { unreadAnswerBytes: () => 0 }): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 10 });
  const counter = (name: string, help: string) => tallyOf(new Counter({ name, help, registers }));

  const cachedKeyHits = counter("keyrun_cached_key_hits_total", "Keys verified without the store.");
  const limitRefusals = counter("keyrun_limit_refusals_total", "Requests refused by their team's limit.");
  const addressRefusals = counter(
    "keyrun_address_allowance_refusals_total",
    "Look-ups refused or delayed because their address is at its allowance.",
  );
  const requests = requestCounters(registers);
  const reads = readCounters(registers);
  const runs = runMeters(registers);
  new Gauge({
    name: "keyrun_unread_answer_bytes",
    help: "Bytes of answers that wait in memory until their callers read them.",
    registers,
    collect() {
      this.set(sources.unreadAnswerBytes());
    },
  });
  const waiting = [
    ...[cachedKeyHits, limitRefusals, addressRefusals, ...Object.values(reads)],
    ...entries.flatMap((entry) => Object.values(requests[entry])),
    ...runs.waiting,
  ];

  const openMetrics = openMetricsOf(registry);

  return {
    requestEnded: (entry, outcome) => requests[entry][outcome].add(),
    runStarted: runs.started,
    storeRead: (entity) => reads[entity].add(),
    cachedKeyHit: cachedKeyHits.add,
    limitRefused: limitRefusals.add,
    addressAllowanceRefused: addressRefusals.add,
    async render(form = "text/plain") {
      for (const { flush } of waiting) flush();
      return await (form === "text/plain" ? registry : openMetrics).metrics();
    },
  };
}

/**
 * Returns a registry with the same metrics in the form of OpenMetrics. There the library takes
 * `_total` from the names of counters for good, so it gets objects that inherit from the metrics.
 */
function openMetricsOf(registry: Registry) {
  const open = new Registry(Registry.OPENMETRICS_CONTENT_TYPE);
  for (const metric of registry.getMetricsAsArray()) open.registerMetric(Object.create(metric));
  return open;
}

function requestCounters(registers: Registry[]) {
  const requests = new Counter({
    name: "keyrun_requests_total",
    help: "Requests answered, by entry, outcome and the HTTP status that the outcome has.",
    labelNames: ["entry", "outcome", "status"],
    registers,
  });
  const outcomes: ("OK" | Reason)[] = ["OK", ...reasonNames];
  return byName(entries, (entry) =>
    byName(outcomes, (outcome) => {
      const status = outcome === "OK" ? 200 : reasons[outcome].httpStatus;
      return tallyOf(requests.labels({ entry, outcome, status }));
    }),
  );
}

// Object.keys returns string[]. The table is a literal, so it has no other keys.
const reasonNames = Object.keys(reasons) as Reason[];

function readCounters(registers: Registry[]) {
  const reads = new Counter({
    name: "keyrun_store_reads_total",
    help: "Reads that reached the store, by what was read.",
    labelNames: ["entity"],
    registers,
  });
  return byName(storeEntities, (entity) => tallyOf(reads.labels({ entity })));
}

function runMeters(registers: Registry[]) {
  let running = 0;
  new Gauge({
    name: "keyrun_runs_running",
    help: "Runs in progress.",
    registers,
    collect() {
      this.set(running);
    },
  });
  const durations = new Histogram({
    name: "keyrun_run_seconds",
    help: "How long runs took, by whether the app succeeded.",
    labelNames: ["result"],
    // From an in-process echo to the longest timeout of an app.
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30],
    registers,
  });
  const results = byName(["succeeded", "failed"] as const, (result) => {
    durations.zero({ result });
    return observationsOf(durations.labels({ result }));
  });
  const ended: ReturnType<Metrics["runStarted"]> = ({ seconds, succeeded }) => {
    running -= 1;
    results[succeeded ? "succeeded" : "failed"].add(seconds);
  };
  return {
    waiting: Object.values(results),
    started: () => {
      running += 1;
      return ended;
    },
  };
}

/**
 * Counts in a plain number and adds it to the registry when metrics are rendered. The registry
 * looks its counter up by labels each time, which costs more than checking a run's limit.
 */
interface Tally {
  /** Counts one event. */
  add(): void;
  /** Moves the count to the registry. */
  flush(): void;
}

function tallyOf(counter: Pick<Counter.Internal, "inc">): Tally {
  let taken = 0;
  return {
    add() {
      taken += 1;
    },
    flush() {
      counter.inc(taken);
      taken = 0;
    },
  };
}

/** How many observations are kept before they are moved to the registry early. */
const waitingObservationsMax = 1_024;

/** Like Tally, for observations: they are kept one by one and moved to the registry together. */
interface Observations {
  add(value: number): void;
  flush(): void;
}

function observationsOf(histogram: Pick<Histogram.Internal<string>, "observe">): Observations {
  const waiting = new Float64Array(waitingObservationsMax);
  let count = 0;
  const flush = () => {
    for (const value of waiting.subarray(0, count)) histogram.observe(value);
    count = 0;
  };
  return {
    add(value) {
      if (count === waitingObservationsMax) flush();
      waiting[count++] = value;
    },
    flush,
  };
}

function byName<Name extends string, Value>(names: readonly Name[], make: (name: Name) => Value) {
  // The entries are made from exactly these names.
  return Object.fromEntries(names.map((name) => [name, make(name)])) as Record<Name, Value>;
}
