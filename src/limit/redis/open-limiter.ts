import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { type LimitTimers, systemLimitTimers } from "../timers.ts";
import { openRedisLogs, type RedisLogsParts } from "./redis-logs.ts";
import { refusalWords, troubleOf } from "./redis-trouble.ts";
import { createSharedLimiter, type SharedLimiter, type SharedLimiterParts } from "./shared-limiter.ts";
import type { OpenSharedLogs } from "./shared-logs.ts";

/**
 * The limits of teams over all instances, in Redis. Throws StartRefused, in words, where Redis
 * can't be reached, must not be used, or is another fleet's.
 */
export async function openSharedLimiter(parts: OpenLimiterParts): Promise<SharedLimiter> {
  const { timers = systemLimitTimers, wrap = (open) => open } = parts;
  let openMsMax: number = bounds.redisStartTryMsMax;
  const open = wrap((lost) => openRedisLogs({ ...parts, timers }, openMsMax, lost));
  const msMax = parts.startMsMax ?? bounds.redisStartMsMax;
  const limiter = await reachRedis(() => createSharedLimiter({ ...parts, timers, open }), {
    clock: parts.clock,
    timers,
    msMax,
  });
  // Nobody waits for a reopening.
  openMsMax = bounds.redisReopenMs;
  return limiter;
}

export interface OpenLimiterParts extends SharedLimiterParts, Omit<RedisLogsParts, "timers"> {
  /** Puts meters and spans before Redis. */
  readonly wrap?: (open: OpenSharedLogs) => OpenSharedLogs;
  readonly timers?: LimitTimers;
  /** How long to try to reach Redis; `redisStartMsMax` where it is absent. */
  readonly startMsMax?: number;
}

/**
 * Opens Redis once as a start does, and leaves it again. Throws StartRefused, with the words of a
 * start, where a start could not use it. Changes no log: what it writes is a key of its own, which
 * expires within a second. Resolves with whether the fleet has marked it already; `marks` are those
 * of the instances that serve the store.
 */
export async function checkRedis(
  redisUrl: string,
  { id, marks, clock }: { readonly id: string; readonly marks: readonly string[]; readonly clock: Clock },
): Promise<boolean> {
  let isMarked = false;
  const onMark = (mark: string | undefined) => {
    isMarked ||= mark !== undefined && mark !== "";
  };
  const limiter = await openSharedLimiter({
    redisUrl,
    fleet: { id, newMark: () => "", marksOf: () => marks, onMark },
    clock,
    windowMs: bounds.limitWindowMs,
    fallback: "refuse",
    sharePlace: () => undefined,
    events: { modeChanged: () => {} },
    // One attempt: the operator can repeat it.
    startMsMax: 0,
  });
  limiter.close();
  return isMarked;
}

/**
 * Repeats the attempt to use Redis until it succeeds, for about `msMax`; 0 means one attempt.
 * Throws StartRefused, in words, where Redis can't be reached or must not be used.
 */
export async function reachRedis<T>(
  attempt: () => Promise<T>,
  { clock, timers, msMax }: { readonly clock: Clock; readonly timers: LimitTimers; readonly msMax: number },
): Promise<T> {
  const untilMs = clock.monotonicMs() + msMax;
  for (;;) {
    try {
      return await attempt();
    } catch (thrown) {
      if (thrown instanceof StartRefused) throw thrown;
      const trouble = troubleOf(thrown);
      const words = refusalWords(trouble);
      if (words !== undefined) throw new StartRefused(words);
      if (clock.monotonicMs() + bounds.redisReopenMs > untilMs) {
        throw new StartRefused(
          `Keyrun can't use the Redis of KEYRUN_REDIS_URL (${trouble.message}). Check the address, and that Redis runs.`,
        );
      }
      await new Promise<void>((resolve) => timers.after(bounds.redisReopenMs, resolve));
    }
  }
}
