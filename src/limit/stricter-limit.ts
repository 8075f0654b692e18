import type { LimitDecision } from "./limiter.ts";

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
