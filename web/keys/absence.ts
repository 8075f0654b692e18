import type { Failure } from "../api/failure.ts";
import type { GetSessionResponse } from "../api/messages.ts";

/**
 * Why this person can't see a team's keys; null when they can, or when it isn't known yet. "team"
 * means that the team doesn't exist or that the person isn't in it: the screen must not reveal
 * which.
 */
export function absenceOf(
  teamId: string,
  session: GetSessionResponse | undefined,
  failure: Failure | null,
): "preview" | "team" | null {
  if ((session && !session.previewAccess) || failure?.reason === "PREVIEW_REQUIRED") return "preview";
  const named = !session || session.teams?.some((team) => team.id === teamId);
  return named && failure?.reason !== "TEAM_NOT_FOUND" ? null : "team";
}
