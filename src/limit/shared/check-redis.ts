import { bounds } from "../../bounds.ts";
import type { Clock } from "../../clock.ts";
import { systemLimitTimers } from "./limit-timers.ts";
import { reachRedis } from "./reach-redis.ts";
import { redisBounds } from "./redis-bounds.ts";
import { openRedisLogs } from "./redis-logs.ts";

/**
 * Opens Redis once as a start does, and leaves it again. Throws StartRefused, with the words of a
 * start, where a start could not use it. Changes no log: what it writes is a key of its own, which
 * expires within a second.
 */
export async function checkRedis({
  redisUrl,
  clock,
}: {
  /** May hold a password, so it never appears in a message. */
  readonly redisUrl: string;
  readonly clock: Clock;
}): Promise<void> {
  const timers = systemLimitTimers;
  const open = () =>
    openRedisLogs({
      ...{ redisUrl, clock, timers },
      windowMs: bounds.limitWindowMs,
      openMsMax: redisBounds.redisStartTryMsMax,
      lost: () => {},
    });
  // One attempt: the operator can repeat it.
  const logs = await reachRedis(open, { clock, timers, msMax: 0 });
  logs.close();
}
