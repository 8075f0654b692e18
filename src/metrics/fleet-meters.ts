import { Counter, Gauge, type Registry } from "@prometheus-io/client";
import { createHistogram } from "./histogram.ts";
import { tallyOf } from "./tally.ts";

/** What is read of a fleet when the metrics are rendered. */
export interface FleetState {
  /** Whether this instance may admit requests. */
  readonly holds: boolean;
  /** The live instances that this one knows of, itself among them. */
  readonly instances: number;
}

/** How a fleet does, as this instance sees it. All is 0 for an instance alone. */
export function fleetMeters(registers: Registry[], stateNow: () => FleetState | undefined) {
  const gauge = (name: string, help: string, read: (state: FleetState) => number) =>
    new Gauge({
      ...{ name, help, registers },
      collect() {
        this.set(read(stateNow() ?? { holds: true, instances: 0 }));
      },
    });
  gauge("keyrun_fleet_instances", "Live instances that this one knows of.", ({ instances }) => instances);
  gauge("keyrun_fleet_lost", "1 while this instance may not admit requests, else 0.", ({ holds }) =>
    holds ? 0 : 1,
  );
  const settled = createHistogram({
    name: "keyrun_fleet_change_seconds",
    help: "How long changes waited until every instance knew of them.",
    // From one round trip to a lease that had to lapse.
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  })({});
  const counter = (name: string, help: string) => tallyOf(new Counter({ name, help, registers }));
  const fenced = counter("keyrun_fleet_fenced_total", "How often others took this instance for dead.");
  const taken = counter(
    "keyrun_fleet_lease_taken_total",
    "How often this instance took its lease: once at its start, and then each time that it had lost it.",
  );
  return {
    changeSettled: settled.add.bind(settled),
    fenced: fenced.add,
    leaseTaken: taken.add,
    flush() {
      fenced.flush();
      taken.flush();
    },
  };
}

/** The time for which this instance may still admit requests if it reaches the store no more. */
export function leaseMeter(registers: Registry[], leftSeconds: () => number): void {
  new Gauge({
    name: "keyrun_lease_left_seconds",
    help: "For how long this instance may still admit requests without a word from MongoDB. Close to 5 while all is well.",
    registers,
    collect() {
      this.set(leftSeconds());
    },
  });
}
