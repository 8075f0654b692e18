import type { RecordSource } from "../cache/record-source.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import type { TeamRecord } from "./team-store.ts";

/** The team of this id. Throws the refusal TEAM_NOT_FOUND, naming `param`, where there is none. */
export async function requireTeam(
  teams: RecordSource<TeamRecord>,
  teamId: string,
  param = "team_id",
): Promise<TeamRecord> {
  if (teamId === "")
    throw fail("INVALID_ARGUMENT", { param, problem: `${param} is required: name the team.` });
  const team = await teams.load(teamId);
  if (!team) throw teamNotFound(teamId, param);
  return team;
}

/**
 * The one refusal for a team that does not exist and for one that is not the caller's (AIP-211).
 */
export function teamNotFound(teamId: string, param = "team_id"): Refusal {
  return fail("TEAM_NOT_FOUND", { param, metadata: { team_id: teamId } });
}
