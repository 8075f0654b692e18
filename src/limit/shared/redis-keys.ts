/**
 * The names of the logs of a fleet in Redis: those of a team and of its keys have one hash tag. Two
 * fleets never share a log, whatever the ids of their teams are.
 */
export function redisKeyOf(
  fleetId: string,
  { teamId, firstKeyId }: { readonly teamId: string; readonly firstKeyId: string | undefined },
) {
  const ofTeam = `keyrun:${fleetId}:{${teamId}}`;
  return firstKeyId === undefined ? `${ofTeam}:log` : `${ofTeam}:key:${firstKeyId}:log`;
}
