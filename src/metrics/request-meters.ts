import type { Registry } from "@prometheus-io/client";
import { type Reason, reasons, rowOf } from "../refusal/reasons.ts";
import {
  byName,
  createCounter,
  createFirstValues,
  createHistogram,
  gaugesOf,
  type Observations,
  type Tally,
} from "./counts.ts";

/** How a request or a run ended: with success, or with this reason of its refusal. */
export type Outcome = "OK" | Reason;

// Object.keys returns string[]. The table is a literal, so it has no other keys.
const reasonNames = Object.keys(reasons) as Reason[];
const outcomes: readonly Outcome[] = ["OK", ...reasonNames];

/** The requests that were answered, and how long they took. */
export function requestMeters<Entry extends string>(registers: Registry[], entries: readonly Entry[]) {
  const requests = createCounter({
    name: "keyrun_requests_total",
    help: "Requests answered, by entry, outcome and the HTTP status that the outcome has.",
    labelNames: ["entry", "outcome", "status"],
    registers,
  });
  const durations = createHistogram({
    name: "keyrun_request_seconds",
    help: "How long requests took until their answer was handed to the system, without streams.",
    labelNames: ["entry", "outcome"],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600],
    registers,
  });
  const meters = byName(entries, (entry) =>
    byName(outcomes, (outcome): RequestMeter => {
      const status = outcome === "OK" ? 200 : reasons[outcome].httpStatus;
      return { count: requests({ entry, outcome, status }), seconds: undefined };
    }),
  );
  const secondsOf = (entry: Entry, outcome: Outcome) => {
    const meter = meters[entry][outcome];
    meter.seconds ??= durations({ entry, outcome });
    return meter.seconds;
  };
  // Most pairs never occur, so only these have their buckets from the start.
  for (const entry of entries) secondsOf(entry, "OK");

  return {
    ended(entry: Entry, outcome: Outcome, seconds: number | undefined) {
      meters[entry][outcome].count.add();
      if (seconds !== undefined) secondsOf(entry, outcome).add(seconds);
    },
  };
}

interface RequestMeter {
  readonly count: Tally;
  seconds: Observations | undefined;
}

/** How a request of a team ended. Reasons would make too many series for each team. */
const teamOutcomes = ["ok", "limited", "refused", "cancelled", "failed"] as const;
type TeamOutcome = (typeof teamOutcomes)[number];

/** What `VerifyKey` said of a key whose secret was right. */
const verdicts = ["valid", "limited", "revoked", "expired", "app_not_allowed"] as const;
export type Verdict = (typeof verdicts)[number];

/**
 * What is counted for each team. Only a proven key names a team here, so callers without one can't
 * use up the label's values.
 */
export function teamMeters(registers: Registry[]) {
  const requests = createCounter({
    name: "keyrun_team_requests_total",
    help: "Requests with a key of the team, by how they ended. The first 200 teams since the start, the rest as other.",
    labelNames: ["team", "outcome"],
    registers,
  });
  const verifications = createCounter({
    name: "keyrun_team_verifications_total",
    help: "Keys of the team that VerifyKey was asked about, by its verdict. The first 200 teams, the rest as other.",
    labelNames: ["team", "verdict"],
    registers,
  });
  const requestRows = createFirstValues((team) =>
    byName(teamOutcomes, (outcome) => requests({ team, outcome })),
  );
  const verdictRows = createFirstValues((team) =>
    byName(verdicts, (verdict) => verifications({ team, verdict })),
  );
  return {
    ended: (team: string, outcome: Outcome) => requestRows(team)[teamOutcomeOf[outcome]].add(),
    verified: (team: string, verdict: Verdict) => verdictRows(team)[verdict].add(),
  };
}

const teamOutcomeOf = byName(outcomes, (outcome): TeamOutcome => {
  if (outcome === "OK") return "ok";
  if (outcome === "RATE_LIMIT_EXCEEDED" || outcome === "QUOTA_EXCEEDED") return "limited";
  if (outcome === "CANCELLED") return "cancelled";
  return rowOf(outcome).httpStatus < 500 ? "refused" : "failed";
});

/** A run that has ended. */
export interface EndedRun {
  readonly appId: string;
  readonly outcome: Outcome;
  readonly seconds: number;
}

/** The outcomes of runs that have a series of their own for each app. */
const appOutcomes = [
  "OK",
  "APP_FAILED",
  "APP_REFUSED",
  "APP_TIMEOUT",
  "APP_UNREACHABLE",
  "APP_BUSY",
  "CANCELLED",
  "other",
] as const;
type AppOutcome = (typeof appOutcomes)[number];

/** The runs in progress, how long they took, and how those of each app ended. */
export function runMeters(registers: Registry[]) {
  let running = 0;
  gaugesOf(registers)("keyrun_runs_running", "Runs in progress, without streams.", () => running);
  const durations = createHistogram({
    name: "keyrun_run_seconds",
    help: "How long runs took, by whether the app succeeded, without streams.",
    labelNames: ["result"],
    // From an in-process echo to the longest timeout of an app.
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 300, 600],
    registers,
  });
  const results = byName(["succeeded", "failed"] as const, (result) => durations({ result }));
  const apps = appMeters(registers);
  return {
    started() {
      running += 1;
    },
    ended({ appId, outcome, seconds }: EndedRun) {
      running -= 1;
      results[outcome === "OK" ? "succeeded" : "failed"].add(seconds);
      const app = apps(appId);
      app.outcomes[appOutcomeOf[outcome]].add();
      app.seconds.add(seconds);
    },
    streamEnded: (appId: string, outcome: Outcome) => apps(appId).outcomes[appOutcomeOf[outcome]].add(),
  };
}

/** Only an app that exists was run, so callers can't use up the label's values. */
function appMeters(registers: Registry[]) {
  const runs = createCounter({
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
    buckets: [0.01, 0.1, 1, 10, 100],
    registers,
  });
  return createFirstValues((app) => ({
    outcomes: byName(appOutcomes, (outcome) => runs({ app, outcome })),
    seconds: durations({ app }),
  }));
}

/** Counts what the guard of each app has let pass. */
export function guardMeter(registers: Registry[]): (appId: string) => void {
  const passed = createCounter({
    name: "keyrun_app_guarded_requests_total",
    help: "Requests that the guard of the app let pass. The first 200 apps since the start, the rest as other.",
    labelNames: ["app"],
    registers,
  });
  const apps = createFirstValues((app) => passed({ app }));
  return (appId) => apps(appId).add();
}

const appOutcomeOf = byName(
  outcomes,
  (outcome): AppOutcome => appOutcomes.find((each) => each === outcome) ?? "other",
);
