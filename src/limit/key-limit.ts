/**
 * The limit that a key has of its own, beside its team's. A key and all that came from it by
 * rotation share one limit and one log, so that a rotation gives them no request more.
 */
export interface KeyLimit {
  /** The first key of the rotations, which names the log. It may have ended long ago. */
  readonly firstKeyId: string;
  readonly limit: number;
}

/**
 * The id of a key's log among those of teams. No team's id has a slash, so an older Keyrun takes it
 * for a team that it never meets.
 */
export function keyLogId(teamId: string, firstKeyId: string): string {
  return `${teamId}/${firstKeyId}`;
}

/** The team and the first key of a log's id; no key where it is the log of a team. */
export function ownerOfLog(logId: string): {
  readonly teamId: string;
  readonly firstKeyId: string | undefined;
} {
  const slash = logId.indexOf("/");
  return slash < 0
    ? { teamId: logId, firstKeyId: undefined }
    : { teamId: logId.slice(0, slash), firstKeyId: logId.slice(slash + 1) };
}
