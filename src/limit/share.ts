import { refuseFor } from "../refusal/refusal.ts";
import { type KeyLimit, keyLogId, type LimitDecision, type Spend } from "./limit-decision.ts";
import type { Limiter } from "./limiter.ts";

/**
 * Counts with `own` what this instance itself admits, against its share of each limit: that of the
 * team and that of the key. Each instance has a place among all of them, and the shares of all
 * places add up to the limit. If it can't be divided evenly, the first places get one more. An
 * instance that has just joined has no place yet, and so no share.
 */
export function createShare(own: Limiter, sharePlace: () => SharePlace | undefined, windowMs: number) {
  /** Costs that are under way, by the log. */
  const reserved = new Map<string, number>();
  const reservedOf = (logId: string) => reserved.get(logId) ?? 0;

  function shareFor(limit: number, cost: number): number {
    const share = shareOf(limit, sharePlace());
    if (share === 0 || cost > share) throw refuseFor("redis", noShare);
    return share;
  }

  function add({ teamId, key }: Spend, cost: number): void {
    const logIds = key ? [teamId, keyLogId(teamId, key.firstKeyId)] : [teamId];
    for (const logId of logIds) {
      const now = reservedOf(logId) + cost;
      if (now > 0) reserved.set(logId, now);
      else reserved.delete(logId);
    }
  }

  function refused(one: LimitDecision, underWay: number, cost: number): LimitDecision {
    // What is under way may leave a window from now on.
    const isUnderWay = cost <= one.remaining && underWay + cost > one.remaining;
    const retryAfterMs = isUnderWay ? windowMs : one.retryAfterMs;
    return { ...one, accepted: false, remaining: Math.max(0, one.remaining - underWay), retryAfterMs };
  }

  return {
    exists: () => sharePlace() !== undefined,

    /**
     * Takes the cost from the share; with a key from both shares or from neither. Throws
     * UNAVAILABLE where a share is less than the cost.
     */
    spend({ teamId, limit, cost, key }: Spend): LimitDecision {
      const keyShare = key && { ...key, limit: shareFor(key.limit, cost) };
      return withLimits(own.spend(teamId, shareFor(limit, cost), cost, keyShare), limit, key);
    },

    /**
     * Reserves a cost that is under way, until `release`. Returns the refusal
     * where there is none. Throws as `spend` does.
     */
    reserve(spend: Spend): LimitDecision | undefined {
      const { teamId, limit, cost, key } = spend;
      const share = shareFor(limit, cost);
      // Nothing was admitted here of a key without a share: the shared log decides.
      const hasKeyShare = key !== undefined && shareOf(key.limit, sharePlace()) > 0;
      const keyShare = hasKeyShare ? { ...key, limit: shareFor(key.limit, cost) } : undefined;
      const seen = own.peek(teamId, share, keyShare);
      const underWay = reservedOf(teamId);
      const keyUnderWay = key ? reservedOf(keyLogId(teamId, key.firstKeyId)) : 0;
      const hasRoom = underWay + cost <= seen.remaining;
      if (hasRoom && (!seen.key || keyUnderWay + cost <= seen.key.remaining)) {
        add(spend, cost);
        return undefined;
      }
      const isCounted = cost > seen.remaining || (seen.key && cost > seen.key.remaining);
      const state = isCounted ? own.spend(teamId, share, cost, keyShare) : seen;
      const ofKey = state.key && { key: refused(state.key, keyUnderWay, cost) };
      return withLimits({ ...refused(state, underWay, cost), ...ofKey }, limit, key);
    },

    release: (spend: Spend) => add(spend, -spend.cost),

    /** What is left of the share; undefined where there is none. */
    peek(teamId: string, limit: number, key?: KeyLimit): LimitDecision | undefined {
      const share = shareOf(limit, sharePlace());
      if (share === 0) return undefined;
      const keyShare = key && { ...key, limit: shareOf(key.limit, sharePlace()) };
      return withLimits(own.peek(teamId, share, keyShare), limit, key);
    },

    /** Counts a cost that the shared log took, whatever the share is. */
    record({ teamId, cost, key }: Spend): void {
      const limit = Number.MAX_SAFE_INTEGER;
      if (cost > 0) own.spend(teamId, limit, cost, key && { ...key, limit });
    },
  };
}

/** Whose share of a limit it is: the place among `of`, from 0 on, by order of registration. */
export interface SharePlace {
  readonly place: number;
  readonly of: number;
}

/** The share of a limit: a whole number; 0 without a place. */
export function shareOf(limit: number, sharePlace: SharePlace | undefined): number {
  if (sharePlace === undefined) return 0;
  const { place, of } = sharePlace;
  return Math.floor(limit / of) + (place < limit % of ? 1 : 0);
}

const noShare = new Error("this instance has no share of the limit yet, or less than the cost");

/** The same decision, which names whole limits in the place of shares. */
function withLimits(decision: LimitDecision, limit: number, key: KeyLimit | undefined): LimitDecision {
  return { ...decision, limit, ...(decision.key && key && { key: { ...decision.key, limit: key.limit } }) };
}
