/** What a limit says to a request: of its team, and of its key where that has one of its own. */
export interface LimitDecision {
  /** Whether the cost was taken; true where the cost is 0. */
  readonly accepted: boolean;
  readonly limit: number;
  /** What is left of the window after this, from 0 to `limit`. */
  readonly remaining: number;
  /**
   * When the oldest counted request leaves the window, in Unix milliseconds; now where none is
   * counted.
   */
  readonly resetUnixMs: number;
  /**
   * After how long the same cost would be accepted if nobody else spent: 0 where accepted, at most
   * the window.
   */
  readonly retryAfterMs: number;
  /**
   * The same of the key's own limit, where it has one; what is outside of it is the team's. Then
   * `accepted` is true in both or in neither, and `retryAfterMs` is 0 in a limit that has room.
   */
  readonly key?: LimitDecision;
}

/** The limits of teams, as their callers see them. */
export interface TeamLimiter {
  /** As `Limiter.spend`. Synchronous where this process counts alone. */
  spend(id: string, limit: number, cost: number, key?: KeyLimit): LimitDecision | Promise<LimitDecision>;
  /**
   * What is left as far as this process knows, at once: for the headers of an answer that comes
   * later.
   */
  peek(id: string, limit: number, key?: KeyLimit): LimitDecision;
}

/**
 * The limit that a key has of its own, beside its team's. A key and all that came from it by
 * rotation share one limit and one log, so that a rotation gives them no request more.
 */
export interface KeyLimit {
  /** The first key of the rotations, which names the log. It may have ended long ago. */
  readonly firstKeyId: string;
  readonly limit: number;
}

/** What a request wants to take from the limit of its team. */
export interface Spend {
  readonly teamId: string;
  readonly limit: number;
  readonly cost: number;
  /** The key, where it has a limit of its own: a spend is taken from both or from neither. */
  readonly key?: KeyLimit | undefined;
}

/**
 * The id of a key's log among those of teams. No team's id has a slash.
 */
export function keyLogId(teamId: string, firstKeyId: string): string {
  return `${teamId}/${firstKeyId}`;
}

/**
 * The one of a request's limits that its caller should go by: on a refusal the one that frees
 * later, else the one with fewer left, and of two alike the key's. The team's where the key has
 * none of its own.
 */
export function stricterLimit(team: LimitDecision): LimitDecision {
  const { key } = team;
  if (key === undefined) return team;
  if (!team.accepted) return key.retryAfterMs >= team.retryAfterMs ? key : team;
  return key.remaining <= team.remaining ? key : team;
}
