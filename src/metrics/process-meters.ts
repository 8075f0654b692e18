import { Gauge, type Registry } from "@prometheus-io/client";

/** The listeners by their place, as `listener` labels name them. */
const listenerNames = ["public", "internal"] as const;
type ListenerName = (typeof listenerNames)[number];

/** `app`: the output of an app. `keys`: the changes of a team's keys, for those who watch them. */
const streamKinds = ["app", "keys"] as const;
type StreamKind = (typeof streamKinds)[number];

/** The state of the process that is read when the metrics are rendered. */
export interface ProcessState {
  /** Open connections, each counted from its acceptance to its end. */
  readonly connections: Readonly<Record<ListenerName, number>>;
  readonly openStreams: Readonly<Record<StreamKind, number>>;
  /** Keys that were used here within the last 5 minutes. */
  readonly activeKeys: number;
  /** Keys of all teams that expire within 14 days. */
  readonly expiringKeys: number;
}

/** What the process is, and what it holds open. */
export function processMeters(
  registers: Registry[],
  {
    build,
    stateNow,
  }: {
    readonly build: { readonly version: string; readonly node: string };
    readonly stateNow: () => ProcessState | undefined;
  },
): void {
  new Gauge({
    name: "keyrun_build_info",
    help: "1, with the versions of this Keyrun and of its Node as labels.",
    labelNames: ["version", "node"],
    registers,
  }).set(build, 1);
  new Gauge({
    name: "keyrun_connections",
    help: "Open connections, by listener.",
    labelNames: ["listener"],
    registers,
    collect() {
      for (const listener of listenerNames) this.set({ listener }, stateNow()?.connections[listener] ?? 0);
    },
  });
  new Gauge({
    name: "keyrun_open_streams",
    help: "Open streams: of apps (app), and of the changes of keys that screens and services watch (keys).",
    labelNames: ["kind"],
    registers,
    collect() {
      for (const kind of streamKinds) this.set({ kind }, stateNow()?.openStreams[kind] ?? 0);
    },
  });
  new Gauge({
    name: "keyrun_active_keys",
    help: "Keys used at this instance (a run, or VerifyKey with a cost) within the last 5 minutes, a second late, at most 100000.",
    registers,
    collect() {
      this.set(stateNow()?.activeKeys ?? 0);
    },
  });
  new Gauge({
    name: "keyrun_expiring_keys",
    help: "Keys of all teams that expire within 14 days, counted in the store each minute, at most 10000.",
    registers,
    collect() {
      this.set(stateNow()?.expiringKeys ?? 0);
    },
  });
}
