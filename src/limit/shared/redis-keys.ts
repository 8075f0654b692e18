/** The names of the logs in Redis: those of a team and of its keys have one hash tag. */
export function redisKeyOf({
  teamId,
  keyId,
}: {
  readonly teamId: string;
  readonly keyId: string | undefined;
}) {
  return keyId === undefined ? `keyrun:{${teamId}}:log` : `keyrun:{${teamId}}:key:${keyId}:log`;
}

/** Fits the names of all logs, and few others. */
export const redisKeysPattern = "keyrun:{*}:*log";

/** Whose log has this name; undefined where it is none. */
export function ownerOfRedisKey(name: string) {
  const { teamId, keyId } = form.exec(name)?.groups ?? {};
  return teamId === undefined ? undefined : { teamId, keyId };
}

const form = /^keyrun:\{(?<teamId>[^/{}]+)\}:(?:key:(?<keyId>[^:/{}]+):)?log$/;
