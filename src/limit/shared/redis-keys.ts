/** The names of the logs in Redis: those of a team and of its keys have one hash tag. */
export function redisKeyOf({
  teamId,
  firstKeyId,
}: {
  readonly teamId: string;
  readonly firstKeyId: string | undefined;
}) {
  return firstKeyId === undefined ? `keyrun:{${teamId}}:log` : `keyrun:{${teamId}}:key:${firstKeyId}:log`;
}

/** Fits the names of all logs, and few others. */
export const redisKeysPattern = "keyrun:{*}:*log";

/** Whose log has this name; undefined where it is none. */
export function ownerOfRedisKey(name: string) {
  const { teamId, firstKeyId } = form.exec(name)?.groups ?? {};
  return teamId === undefined ? undefined : { teamId, firstKeyId };
}

const form = /^keyrun:\{(?<teamId>[^/{}]+)\}:(?:key:(?<firstKeyId>[^:/{}]+):)?log$/;
