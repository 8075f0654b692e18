import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { systemLimitTimers } from "./limit-timers.ts";
import { reachRedis } from "./reach-redis.ts";
import { redisBounds } from "./redis-bounds.ts";
import { openRedisLogs } from "./redis-logs.ts";
import type { FleetOfRedis } from "./redis-mark.ts";

/**
 * Opens Redis once as a start does, and leaves it again. Throws StartRefused, with the words of a
 * start, where a start could not use it. Changes no log: what it writes is a key of its own, which
 * expires within a second. Resolves with whether the fleet has marked it already.
 */
export async function checkRedis({
  redisUrl,
  fleet,
  clock,
}: {
  /** May hold a password, so it never appears in a message. */
  readonly redisUrl: string;
  /** The fleet of the store, and the marks of the Redises of the instances that serve it. */
  readonly fleet: { readonly id: string; readonly marks: readonly string[] };
  readonly clock: Clock;
}): Promise<boolean> {
  const timers = systemLimitTimers;
  let isMarked = false;
  const looking: FleetOfRedis = {
    ...{ id: fleet.id, newMark: () => "", marksOf: () => fleet.marks },
    onMark: (mark) => {
      isMarked ||= mark !== undefined && mark !== "";
    },
  };
  const open = () =>
    openRedisLogs({
      ...{ redisUrl, fleet: looking, clock, timers },
      windowMs: bounds.limitWindowMs,
      openMsMax: redisBounds.redisStartTryMsMax,
      lost: () => {},
    });
  // One attempt: the operator can repeat it.
  const logs = await reachRedis(open, { clock, timers, msMax: 0 });
  logs.close();
  return isMarked;
}
