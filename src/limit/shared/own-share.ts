import { refuseFor } from "../../refusal/refusal.ts";
import { type KeyLimit, keyLogId } from "../key-limit.ts";
import type { LimitDecision, Limiter } from "../limiter.ts";
import type { Standing } from "../standing.ts";

/** What this instance itself admitted, and its share of each team's limit and each key's. */
export interface OwnShare {
  /** Whether there is a share: not while this instance is new among the others. */
  exists(): boolean;
  /**
   * Takes the cost from the share; with a key from both shares or from neither. Throws UNAVAILABLE
   * where a share is less than the cost.
   */
  spend(id: string, limit: number, cost: number, key?: KeyLimit): LimitDecision;
  /**
   * Keeps room in the share for a cost that is under way, until `release`. Returns the refusal
   * where there is none. Throws as `spend` does.
   */
  hold(id: string, limit: number, cost: number, key?: KeyLimit): LimitDecision | undefined;
  release(id: string, cost: number, key?: KeyLimit): void;
  /** What is left of the share; undefined where there is none. */
  look(id: string, limit: number, key?: KeyLimit): LimitDecision | undefined;
  /** Counts a cost that the shared log took, whatever the share is. */
  record(id: string, cost: number, key?: KeyLimit): void;
}

/**
 * `own` counts whatever this instance admitted. Without a standing there is no share. The shares of
 * all places add up to the limit: the first get one more where it can't be divided.
 */
export function createOwnShare({
  own,
  standing,
  windowMs,
}: {
  readonly own: Limiter;
  readonly standing: () => Standing | undefined;
  readonly windowMs: number;
}): OwnShare {
  const held = new Map<string, number>();

  function shareFor(limit: number, cost: number): number {
    const share = shareOf(limit, standing());
    if (share === 0 || cost > share) throw refuseFor("redis", noShare);
    return share;
  }

  const keyShareFor = (key: KeyLimit | undefined, cost: number): KeyLimit | undefined =>
    key && { ...key, limit: shareFor(key.limit, cost) };

  function add(id: string, cost: number): void {
    const now = (held.get(id) ?? 0) + cost;
    if (now > 0) held.set(id, now);
    else held.delete(id);
  }

  return {
    exists: () => standing() !== undefined,
    spend(id, limit, cost, key) {
      const share = shareFor(limit, cost);
      return withLimits(own.spend(id, share, cost, keyShareFor(key, cost)), { limit, key });
    },
    hold(id, limit, cost, key) {
      const share = shareFor(limit, cost);
      // Nothing was admitted here of a key without a share: the shared log decides.
      const hasKeyShare = key !== undefined && shareOf(key.limit, standing()) > 0;
      const keyShare = hasKeyShare ? keyShareFor(key, cost) : undefined;
      const seen = own.look(id, share, keyShare);
      const heldNow = held.get(id) ?? 0;
      const keyHeldNow = key ? (held.get(keyLogId(id, key.firstKeyId)) ?? 0) : 0;
      const hasRoom = heldNow + cost <= seen.remaining;
      if (hasRoom && (!seen.key || keyHeldNow + cost <= seen.key.remaining)) {
        add(id, cost);
        if (key) add(keyLogId(id, key.firstKeyId), cost);
        return undefined;
      }
      const isCounted = cost > seen.remaining || (seen.key && cost > seen.key.remaining);
      const state = isCounted ? own.spend(id, share, cost, keyShare) : seen;
      const refused = (one: LimitDecision, underWay: number): LimitDecision => ({
        ...one,
        accepted: false,
        remaining: Math.max(0, one.remaining - underWay),
        // What is under way may leave a window from now on.
        ...(cost <= one.remaining && underWay + cost > one.remaining && { retryAfterMs: windowMs }),
      });
      const both = { ...refused(state, heldNow), ...(state.key && { key: refused(state.key, keyHeldNow) }) };
      return withLimits(both, { limit, key });
    },
    release(id, cost, key) {
      add(id, -cost);
      if (key) add(keyLogId(id, key.firstKeyId), -cost);
    },
    look(id, limit, key) {
      const share = shareOf(limit, standing());
      if (share === 0) return undefined;
      const keyShare = key && { ...key, limit: shareOf(key.limit, standing()) };
      return withLimits(own.look(id, share, keyShare), { limit, key });
    },
    record(id, cost, key) {
      const limit = Number.MAX_SAFE_INTEGER;
      if (cost > 0) own.spend(id, limit, cost, key && { ...key, limit });
    },
  };
}

const noShare = new Error("this instance has no share of the limit yet, or less than the cost");

/** The same decision, which names whole limits in the place of shares. */
function withLimits(
  decision: LimitDecision,
  { limit, key }: { readonly limit: number; readonly key: KeyLimit | undefined },
): LimitDecision {
  return {
    ...decision,
    limit,
    ...(decision.key && key && { key: { ...decision.key, limit: key.limit } }),
  };
}

/** The share of a limit: a whole number; 0 without a standing. */
export function shareOf(limit: number, standing: Standing | undefined): number {
  if (standing === undefined) return 0;
  const { place, of } = standing;
  return Math.floor(limit / of) + (place < limit % of ? 1 : 0);
}
