/** The bounds of service tokens. */
export const serviceTokenBounds = {
  /** Accepted tokens beside that of the settings. */
  acceptedMax: 100,
  /** Teams of one token. */
  teamsMax: 100,
  /** Tokens in memory, with those that were revoked and are still sent. */
  cachedMax: 1_000,
  /** Ids known not to be in the store. */
  absentMax: 1_000,
  /** Look-ups of tokens in flight at once, and those that wait. */
  lookupsMax: 16,
  lookupWaitersMax: 1_000,
} as const;
