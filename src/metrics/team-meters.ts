import { Counter, type Registry } from "@prometheus-io/client";
import { rowOf } from "../refusal/reasons.ts";
import { createFirstValues } from "./first-values.ts";
import { type Outcome, outcomes } from "./request-meters.ts";
import { byName, tallyOf } from "./tally.ts";

/** How a request of a team ended. Reasons would make too many series for each team. */
const teamOutcomes = ["ok", "limited", "refused", "cancelled", "failed"] as const;
type TeamOutcome = (typeof teamOutcomes)[number];

/** What `VerifyKey` said of a key whose secret was right. */
export const verdicts = ["valid", "limited", "revoked", "expired", "app_not_allowed"] as const;
export type Verdict = (typeof verdicts)[number];

/**
 * What is counted for each team. Only a proven key names a team here, so callers without one can't
 * use up the label's values.
 */
export function teamMeters(registers: Registry[]) {
  const requests = new Counter({
    name: "keyrun_team_requests_total",
    help: "Requests with a key of the team, by how they ended. The first 200 teams since the start, the rest as other.",
    labelNames: ["team", "outcome"],
    registers,
  });
  const verifications = new Counter({
    name: "keyrun_team_verifications_total",
    help: "Keys of the team that VerifyKey was asked about, by its verdict. The first 200 teams, the rest as other.",
    labelNames: ["team", "verdict"],
    registers,
  });
  const requestRows = createFirstValues((team) =>
    byName(teamOutcomes, (outcome) => tallyOf(requests.labels({ team, outcome }))),
  );
  const verdictRows = createFirstValues((team) =>
    byName(verdicts, (verdict) => tallyOf(verifications.labels({ team, verdict }))),
  );
  return {
    ended: (team: string, outcome: Outcome) => requestRows.of(team)[teamOutcomeOf[outcome]].add(),
    verified: (team: string, verdict: Verdict) => verdictRows.of(team)[verdict].add(),
    flush() {
      for (const rows of [requestRows, verdictRows])
        for (const row of rows.rows()) for (const tally of Object.values(row)) tally.flush();
    },
  };
}

const teamOutcomeOf = byName(outcomes, (outcome): TeamOutcome => {
  if (outcome === "OK") return "ok";
  if (outcome === "RATE_LIMIT_EXCEEDED") return "limited";
  if (outcome === "CANCELLED") return "cancelled";
  return rowOf(outcome).httpStatus < 500 ? "refused" : "failed";
});
