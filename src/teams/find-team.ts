import { fail, type Refusal } from "../error.ts";
import type { TeamRecord } from "./team-store.ts";

/** Where teams are found: a cache above the store. */
export interface TeamSource {
  /** What is held in memory: the team, null for an id known to be absent, undefined where the store must be read. */
  peek(teamId: string): TeamRecord | null | undefined;
  load(teamId: string): Promise<TeamRecord | undefined>;
}

/** The team of this id, or the refusal TEAM_NOT_FOUND naming `param`. */
export async function requireTeam(teams: TeamSource, teamId: string, param = "team_id"): Promise<TeamRecord> {
  if (teamId === "")
    throw fail("INVALID_ARGUMENT", { param, problem: `${param} is required: name the team.` });
  const team = teams.peek(teamId) ?? (await teams.load(teamId));
  if (!team) throw teamNotFound(teamId, param);
  return team;
}

/** The one refusal for a team that does not exist and for one that is not the caller's (AIP-211). */
export function teamNotFound(teamId: string, param = "team_id"): Refusal {
  return fail("TEAM_NOT_FOUND", { param, metadata: { team_id: teamId.slice(0, 63) } });
}
