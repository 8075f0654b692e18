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

/** Fits the names of all logs of the fleet, and few others. */
export const redisKeysPattern = (fleetId: string) => `keyrun:${fleetId}:{*}:*log`;

/** Whose log of a fleet has this name; undefined where it is none. */
export function ownerOfRedisKey(name: string) {
  const { teamId, firstKeyId } = form.exec(name)?.groups ?? {};
  return teamId === undefined ? undefined : { teamId, firstKeyId };
}

const form = /^keyrun:[^:{}]+:\{(?<teamId>[^/{}]+)\}:(?:key:(?<firstKeyId>[^:/{}]+):)?log$/;
