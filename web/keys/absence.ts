import type { GetSessionResponse } from "#gen/keyrun/v1/session_service_pb.ts";
import type { Failure } from "../api/failure.ts";

/**
 * Why a team's keys are not for this person to see; null where they are, or nobody has said yet. "team" means both
 * that there is no such team and that the person is not in it: the screen must not tell which.
 */
export function absenceOf(
  teamId: string,
  session: GetSessionResponse | undefined,
  failure: Failure | null,
): "preview" | "team" | null {
  if (session?.previewAccess === false || failure?.reason === "PREVIEW_REQUIRED") return "preview";
  const named = session?.teams.some((team) => team.id === teamId) ?? true;
  return named && failure?.reason !== "TEAM_NOT_FOUND" ? null : "team";
}
