import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { limitBounds } from "../limit-bounds.ts";
import type { Standing } from "../standing.ts";
import { type LimitTimers, systemLimitTimers } from "./limit-timers.ts";
import { reachRedis } from "./reach-redis.ts";
import { redisBounds } from "./redis-bounds.ts";
import { openRedisLogs } from "./redis-logs.ts";
import type { FleetOfRedis } from "./redis-mark.ts";
import type { OpenSharedLogs, SharedLogs } from "./shared-logs.ts";
import { createSwitchingLimiter, type SharedLimiter, type SharedLimiterEvents } from "./switching-limiter.ts";

export interface SharedLimiterParts {
  /** May hold a password, so it never appears in a message. */
  readonly redisUrl: string;
  readonly fleet: FleetOfRedis;
  readonly fallback: "share" | "refuse";
  readonly clock: Clock;
  /** Undefined: this instance has no share yet. */
  readonly standing: () => Standing | undefined;
  readonly windowMs: number;
  readonly events: SharedLimiterEvents;
  /** Puts a meter before Redis. */
  readonly meterLogs?: (open: OpenSharedLogs) => OpenSharedLogs;
  readonly timers?: LimitTimers;
  /** Wraps each opened connection. */
  readonly watchLogs?: (logs: SharedLogs) => SharedLogs;
  /** How long to try to reach Redis; `redisStartMsMax` where it is absent. */
  readonly startMsMax?: number;
}

/**
 * The limits of teams over all instances, in Redis. Throws StartRefused, in words, where Redis
 * can't be reached, must not be used, or is another fleet's.
 */
export async function createSharedLimiter(parts: SharedLimiterParts): Promise<SharedLimiter> {
  const { redisUrl, fleet, clock, windowMs, timers = systemLimitTimers } = parts;
  const { watchLogs, meterLogs = (open) => open } = parts;
  let openMsMax: number = redisBounds.redisStartTryMsMax;
  const open: OpenSharedLogs = async (lost) => {
    const logs = await openRedisLogs({ redisUrl, fleet, clock, timers, windowMs, openMsMax, lost });
    return watchLogs?.(logs) ?? logs;
  };
  const create = () =>
    createSwitchingLimiter({
      ...parts,
      ...{ timers, open: meterLogs(open) },
      logsMax: bounds.teamLogsMax,
      keyLogsMax: limitBounds.keyLogsMax,
      callMsMax: redisBounds.redisCallMsMax,
      reopenMs: redisBounds.redisReopenMs,
    });
  const msMax = parts.startMsMax ?? redisBounds.redisStartMsMax;
  const limiter = await reachRedis(create, { clock, timers, msMax });
  // Nobody waits for a reopening.
  openMsMax = redisBounds.redisReopenMs;
  return limiter;
}
