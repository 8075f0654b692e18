import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import type { LimitMode } from "../../metrics/metrics.ts";
import { refuseFor, unavailable } from "../../refusal/refusal.ts";
import { keyLogId, type LimitDecision, type Spend, type TeamLimiter } from "../limit-decision.ts";
import { createLimiter } from "../limiter.ts";
import { createShare, type SharePlace } from "../share.ts";
import type { LimitTimers } from "../timers.ts";
import { createReconnectingRedis } from "./reconnecting-redis.ts";
import type { Answer, LogState, OpenSharedLogs } from "./shared-logs.ts";

/**
 * Counts in the shared logs while they answer. As soon as a call fails or takes too long, it counts
 * by the fallback, and tries to come back. With `share`, for one window after that, a request must
 * be taken by this instance's own share and by the shared log: that log may lack what was admitted
 * meanwhile. An instance without a share takes by the shared log alone then. Rejects as `open` does
 * where the first connection can't be opened.
 */
export async function createSharedLimiter(
  parts: SharedLimiterParts & { readonly open: OpenSharedLogs; readonly timers: LimitTimers },
): Promise<SharedLimiter> {
  const { open, timers, clock, windowMs, fallback, sharePlace, events } = parts;
  const { teamLogsMax: logsMax, keyLogsMax } = bounds;
  const share = createShare(createLimiter({ clock, windowMs, logsMax, keyLogsMax }), sharePlace, windowMs);
  const teams = createLastKnownCounts(clock, logsMax);
  const keys = createLastKnownCounts(clock, keyLogsMax);
  let bothUntilMs = Number.NEGATIVE_INFINITY;
  let apartMs = Number.NEGATIVE_INFINITY;
  let isClosed = false;
  /** Why the shared logs were last of no use. */
  let trouble: unknown;
  const redis = await createReconnectingRedis({
    open,
    clock,
    timers,
    onDropped(cause) {
      trouble = cause;
      events.modeChanged({ mode: fallback, cause });
    },
    onReopenFailed(cause) {
      trouble = cause;
      events.returnFailed?.(cause);
    },
    onReturned() {
      bothUntilMs = clock.monotonicMs() + windowMs;
      events.modeChanged({ mode: "shared", cause: trouble });
    },
  });

  function spendApart(spend: Spend): LimitDecision {
    if (isClosed) throw unavailable();
    if (fallback === "refuse") throw refuseFor("redis", trouble);
    const decision = share.spend(spend);
    if (decision.accepted) apartMs = clock.monotonicMs();
    return decision;
  }

  async function spendShared(spend: Spend): Promise<LimitDecision> {
    // Without a share this instance admits nothing apart: what it takes is in the shared log.
    const isReserved =
      spend.cost > 0 && fallback === "share" && clock.monotonicMs() < bothUntilMs && share.exists();
    const refused = isReserved ? share.reserve(spend) : undefined;
    if (refused) return refused;
    const answer = await redis.spend(spend);
    if (isReserved) share.release(spend);
    return answer ? decided(answer, spend) : spendApart(spend);
  }

  function decided(answer: Answer, spend: Spend): LimitDecision {
    const { teamId, limit, key } = spend;
    const accepted = answer.taken === 1;
    if (accepted && fallback === "share") share.record(spend);
    teams.learn(teamId, answer);
    const team = decisionOf(answer, limit, accepted);
    if (key === undefined || answer.key === undefined) return team;
    keys.learn(keyLogId(teamId, key.firstKeyId), answer.key);
    return { ...team, key: decisionOf(answer.key, key.limit, accepted) };
  }

  function decisionOf(log: LogState, limit: number, accepted: boolean): LimitDecision {
    const remaining = Math.max(0, limit - log.count);
    const resetUnixMs = clock.unixMs() + log.resetAfterMs;
    return { accepted, limit, remaining, resetUnixMs, retryAfterMs: log.retryAfterMs };
  }

  return {
    async spend(teamId, limit, cost, key) {
      const spend = { teamId, limit, cost, key };
      return redis.isOpen() ? await spendShared(spend) : spendApart(spend);
    },
    peek(teamId, limit, key) {
      const isApart = !redis.isOpen() && fallback === "share";
      const left = isApart ? share.peek(teamId, limit, key) : undefined;
      if (left) return left;
      const team = decisionOf(teams.lastOf(teamId), limit, true);
      if (!key) return team;
      const last = keys.lastOf(keyLogId(teamId, key.firstKeyId));
      return { ...team, key: decisionOf(last, key.limit, true) };
    },
    isAllShared: () => clock.monotonicMs() >= apartMs + windowMs,
    mode: () => (redis.isOpen() ? "shared" : fallback),
    close() {
      isClosed = true;
      redis.close();
    },
  };
}

/** A limiter whose logs all instances share. */
export interface SharedLimiter extends TeamLimiter {
  spend(...asked: Parameters<TeamLimiter["spend"]>): Promise<LimitDecision>;
  /** How it counts now: `shared`, or the fallback. */
  mode(): LimitMode;
  /** Whether all that this instance admitted in the last window is in the shared log. */
  isAllShared(): boolean;
  /** Drops the connection. Spends that wait, and later ones, are refused with UNAVAILABLE. */
  close(): void;
}

export interface SharedLimiterParts {
  readonly clock: Clock;
  readonly windowMs: number;
  /** What this instance does while the shared logs do not answer. */
  readonly fallback: "share" | "refuse";
  /** Undefined: this instance has no share yet. */
  readonly sharePlace: () => SharePlace | undefined;
  readonly events: {
    /**
     * Called once for each change of the mode, and never for a request. `cause` says why the shared
     * logs are of no use; for `shared`, why they were not.
     */
    readonly modeChanged: (change: { readonly mode: LimitMode; readonly cause: unknown }) => void;
    /** An attempt to come back failed. The next one follows in a second. */
    readonly returnFailed?: (cause: unknown) => void;
  };
}

/**
 * What this process last learned of each shared log: those of teams, or those of keys. Past
 * `logsMax` the log learned of first is forgotten. One of which nothing is known counts nothing.
 */
function createLastKnownCounts(clock: Clock, logsMax: number) {
  const known = new Map<string, { readonly count: number; readonly resetMs: number }>();
  return {
    learn(logId: string, { count, resetAfterMs }: LogState): void {
      if (known.size >= logsMax && !known.has(logId)) {
        const [first = ""] = known.keys();
        known.delete(first);
      }
      known.set(logId, { count, resetMs: clock.monotonicMs() + resetAfterMs });
    },
    lastOf(logId: string): LogState {
      const { count = 0, resetMs = 0 } = known.get(logId) ?? {};
      return { count, resetAfterMs: Math.max(0, resetMs - clock.monotonicMs()), retryAfterMs: 0 };
    },
  };
}
