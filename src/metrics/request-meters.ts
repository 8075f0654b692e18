import { Counter, type Registry } from "@prometheus-io/client";
import { type Reason, reasons } from "../refusal/reasons.ts";
import { createHistogram, type Observations } from "./histogram.ts";
import type { Entry } from "./metrics.ts";
import { byName, type Tally, tallyOf } from "./tally.ts";

/** How a request or a run ended: with success, or with this reason of its refusal. */
export type Outcome = "OK" | Reason;

// Object.keys returns string[]. The table is a literal, so it has no other keys.
const reasonNames = Object.keys(reasons) as Reason[];
export const outcomes: readonly Outcome[] = ["OK", ...reasonNames];

/** The requests that were answered, and how long they took. */
export function requestMeters(registers: Registry[], entries: readonly Entry[]) {
  const requests = new Counter({
    name: "keyrun_requests_total",
    help: "Requests answered, by entry, outcome and the HTTP status that the outcome has.",
    labelNames: ["entry", "outcome", "status"],
    registers,
  });
  const durations = createHistogram({
    name: "keyrun_request_seconds",
    help: "How long requests took until their answer was handed to the system, without streams.",
    labelNames: ["entry", "outcome"],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  });
  const meters = byName(entries, (entry) =>
    byName(outcomes, (outcome): RequestMeter => {
      const status = outcome === "OK" ? 200 : reasons[outcome].httpStatus;
      return { count: tallyOf(requests.labels({ entry, outcome, status })), seconds: undefined };
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
    flush() {
      for (const entry of entries) for (const outcome of outcomes) meters[entry][outcome].count.flush();
    },
  };
}

interface RequestMeter {
  readonly count: Tally;
  seconds: Observations | undefined;
}
