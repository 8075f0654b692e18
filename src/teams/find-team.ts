/** How other services ask for a team, and give it something only while it stays. */

import { isResourceId } from "../base/fields.ts";
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
  if (!team) throw noSuchTeam(teamId, param);
  return team;
}

/** The refusal for a caller who may know which teams there are: its words name the team. */
export function noSuchTeam(teamId: string, param = "team_id"): Refusal {
  if (!isResourceId(teamId)) return teamNotFound(teamId, param);
  const problem = `There is no team \`${teamId}\`.`;
  return fail("TEAM_NOT_FOUND", { param, problem, metadata: { team_id: teamId } });
}

/**
 * The one refusal of a member for a team that does not exist and for one that is not the caller's
 * (AIP-211). It repeats an id only if it has the form of one: people do send a key in its place.
 */
export function teamNotFound(teamId: string, param = "team_id"): Refusal {
  return fail("TEAM_NOT_FOUND", { param, ...(isResourceId(teamId) && { metadata: { team_id: teamId } }) });
}

/**
 * Does a write that gives these teams something, and returns what it wrote. Throws TEAM_NOT_FOUND
 * or TEAM_ENDING where a team is not there or is being deleted, also where its deletion began
 * during the write: then `undo` is called with what was written, and nothing of it stays. A new
 * team that got the id during the write is another team, which gets nothing: TEAM_NOT_FOUND.
 *
 * A deletion first marks the team and then finds what the team has. Here the order is the
 * reverse: first the write, then a check of the mark. So at least one of the two sees the other.
 */
export async function whileTeamsStay<T>(
  teams: RecordSource<TeamRecord>,
  { teamIds, param }: { readonly teamIds: readonly string[]; readonly param?: string },
  work: { readonly write: () => Promise<T>; readonly undo: (written: T) => Promise<unknown> },
): Promise<T> {
  const before: TeamRecord[] = [];
  for (const teamId of teamIds) before.push(await requireLasting(teams, teamId, param));
  const written = await work.write();
  try {
    for (const { id, createTimeMs } of before) {
      const team = await requireLasting(teams, id, param);
      // The version can't tell a new team from a changed one.
      if (team.createTimeMs !== createTimeMs) throw noSuchTeam(id, param);
    }
  } catch (thrown) {
    await work.undo(written);
    throw thrown;
  }
  return written;
}

/** As `requireTeam`. Throws TEAM_ENDING where the team is being deleted. */
export async function requireLasting(
  teams: RecordSource<TeamRecord>,
  teamId: string,
  param?: string,
): Promise<TeamRecord> {
  const team = await requireTeam(teams, teamId, param);
  if (team.state === "active") return team;
  throw fail("TEAM_ENDING", { ...(param !== undefined && { param }), metadata: { team_id: teamId } });
}
