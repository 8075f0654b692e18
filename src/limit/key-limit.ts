/** The limit that a key has of its own, beside its team's. */
export interface KeyLimit {
  readonly keyId: string;
  readonly limit: number;
}

/**
 * The id of a key's log among those of teams. No team's id has a slash, so an older Keyrun takes it
 * for a team that it never meets.
 */
export function keyLogId(teamId: string, keyId: string): string {
  return `${teamId}/${keyId}`;
}

/** The team and the key of a log's id; no key where it is the log of a team. */
export function ownerOfLog(logId: string): { readonly teamId: string; readonly keyId: string | undefined } {
  const slash = logId.indexOf("/");
  return slash < 0
    ? { teamId: logId, keyId: undefined }
    : { teamId: logId.slice(0, slash), keyId: logId.slice(slash + 1) };
}
