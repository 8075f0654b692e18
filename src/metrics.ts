import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "@prometheus-io/client";
import { type Reason, reasons } from "./reasons.ts";

/** Where a request came in: the REST edge, or an RPC of any protocol. */
export const doors = ["rest", "rpc"] as const;
export type Door = (typeof doors)[number];

export const storeEntities = ["key", "team", "app", "session"] as const;
export type StoreEntity = (typeof storeEntities)[number];

/**
 * What Keyrun counts. Every label has a fixed set of values, all of them there from the start: a caller can't
 * make the registry grow, and a rate begins at 0 and not at the first event. No method throws.
 */
export interface Metrics {
  /** A request was answered, with success or the reason it was refused for. */
  requestEnded(door: Door, outcome: "OK" | Reason): void;
  /** A run was handed to its app; call the answer once when it ended, with how long it took. */
  runStarted(): (ended: { seconds: number; succeeded: boolean }) => void;
  /** A read reached the store. */
  storeRead(entity: StoreEntity): void;
  /** A key was verified without the store. */
  cachedKeyHit(): void;
  /** A request was refused by its team's limit. */
  limitRefused(): void;
  /** A look-up was refused or made to wait because its address is at its allowance. */
  addressAllowanceRefused(): void;
  /** Prometheus' text format: all of these, the event loop's delay and the process. */
  render(): Promise<string>;
  /** The media type of what `render` answers with. */
  readonly contentType: string;
}

export function createMetrics(): Metrics {
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
  const waiting = [
    ...[cachedKeyHits, limitRefusals, addressRefusals, ...Object.values(reads)],
    ...doors.flatMap((door) => Object.values(requests[door])),
    ...runs.waiting,
  ];

  return {
    requestEnded: (door, outcome) => requests[door][outcome].add(),
    runStarted: runs.started,
    storeRead: (entity) => reads[entity].add(),
    cachedKeyHit: cachedKeyHits.add,
    limitRefused: limitRefusals.add,
    addressAllowanceRefused: addressRefusals.add,
    async render() {
      for (const { tell } of waiting) tell();
      return await registry.metrics();
    },
    contentType: registry.contentType,
  };
}

function requestCounters(registers: Registry[]) {
  const requests = new Counter({
    name: "keyrun_requests_total",
    help: "Requests answered, by door, outcome and the HTTP status that the outcome has.",
    labelNames: ["door", "outcome", "status"],
    registers,
  });
  const outcomes: ("OK" | Reason)[] = ["OK", ...reasonNames];
  return byName(doors, (door) =>
    byName(outcomes, (outcome) => {
      const status = outcome === "OK" ? 200 : reasons[outcome].httpStatus;
      return tallyOf(requests.labels({ door, outcome, status }));
    }),
  );
}

// `keyof` is what Object.keys loses; the table is a literal, so it has no other names.
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
    help: "Runs that apps are at now.",
    registers,
    collect() {
      this.set(running);
    },
  });
  const durations = new Histogram({
    name: "keyrun_run_seconds",
    help: "How long runs took, by whether the app succeeded.",
    labelNames: ["result"],
    // From an echo in process to the longest timeout that an app may have.
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
 * Counts in a plain number what the registry learns when it is asked: its own count is a look-up by labels, which costs
 * a run more than its limit does.
 */
interface Tally {
  /** Takes an event. */
  add(): void;
  /** Hands what was taken to the registry. */
  tell(): void;
}

function tallyOf(counter: Pick<Counter.Internal, "inc">): Tally {
  let taken = 0;
  return {
    add() {
      taken += 1;
    },
    tell() {
      counter.inc(taken);
      taken = 0;
    },
  };
}

/** Observations that wait; when so many do, they are handed over at once. */
const waitingObservationsMax = 1_024;

/** The same for observations: they are kept as they came and told one by one, but all in one go. */
interface Observations {
  add(value: number): void;
  tell(): void;
}

function observationsOf(histogram: Pick<Histogram.Internal<string>, "observe">): Observations {
  const waiting = new Float64Array(waitingObservationsMax);
  let count = 0;
  const tell = () => {
    for (const value of waiting.subarray(0, count)) histogram.observe(value);
    count = 0;
  };
  return {
    add(value) {
      if (count === waitingObservationsMax) tell();
      waiting[count++] = value;
    },
    tell,
  };
}

function byName<Name extends string, Value>(names: readonly Name[], make: (name: Name) => Value) {
  // Made of exactly these names on this line.
  return Object.fromEntries(names.map((name) => [name, make(name)])) as Record<Name, Value>;
}
