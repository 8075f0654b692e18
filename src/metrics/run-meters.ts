import { Counter, Gauge, type Registry } from "@prometheus-io/client";
import { createFirstValues } from "./first-values.ts";
import { createHistogram } from "./histogram.ts";
import { type Outcome, outcomes } from "./request-meters.ts";
import { byName, tallyOf } from "./tally.ts";

/** A run that has ended. */
export interface EndedRun {
  readonly appId: string;
  readonly outcome: Outcome;
  readonly seconds: number;
}

/** The outcomes of runs that have a series of their own for each app. */
const appOutcomes = [
  ...["OK", "APP_FAILED", "APP_TIMEOUT", "APP_UNREACHABLE", "APP_BUSY", "CANCELLED"],
  "other",
] as const;
type AppOutcome = (typeof appOutcomes)[number];

/** The runs in progress, how long they took, and how those of each app ended. */
export function runMeters(registers: Registry[]) {
  let running = 0;
  new Gauge({
    name: "keyrun_runs_running",
    help: "Runs in progress, without streams.",
    registers,
    collect() {
      this.set(running);
    },
  });
  const durations = createHistogram({
    name: "keyrun_run_seconds",
    help: "How long runs took, by whether the app succeeded, without streams.",
    labelNames: ["result"],
    // From an in-process echo to the longest timeout of an app.
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30],
    registers,
  });
  const results = byName(["succeeded", "failed"] as const, (result) => durations({ result }));
  const apps = appMeters(registers);
  return {
    flush: apps.flush,
    started() {
      running += 1;
    },
    ended({ appId, outcome, seconds }: EndedRun) {
      running -= 1;
      results[outcome === "OK" ? "succeeded" : "failed"].add(seconds);
      const app = apps.of(appId);
      app.outcomes[appOutcomeOf[outcome]].add();
      app.seconds.add(seconds);
    },
    streamEnded: (appId: string, outcome: Outcome) => apps.of(appId).outcomes[appOutcomeOf[outcome]].add(),
  };
}

/** Only an app that exists was run, so callers can't use up the label's values. */
function appMeters(registers: Registry[]) {
  const runs = new Counter({
    name: "keyrun_app_runs_total",
    help: "Runs and streams of the app that ended, by outcome. The first 200 apps since the start, the rest as other.",
    labelNames: ["app", "outcome"],
    registers,
  });
  const durations = createHistogram({
    name: "keyrun_app_run_seconds",
    help: "How long runs of the app took, without streams. The first 200 apps since the start, the rest as other.",
    labelNames: ["app"],
    // Few, as each app has them.
    buckets: [0.01, 0.1, 1, 10],
    registers,
  });
  const rows = createFirstValues((app) => ({
    outcomes: byName(appOutcomes, (outcome) => tallyOf(runs.labels({ app, outcome }))),
    seconds: durations({ app }),
  }));
  return {
    of: rows.of,
    flush() {
      for (const row of rows.rows()) for (const tally of Object.values(row.outcomes)) tally.flush();
    },
  };
}

const appOutcomeOf = byName(
  outcomes,
  (outcome): AppOutcome => appOutcomes.find((each) => each === outcome) ?? "other",
);
