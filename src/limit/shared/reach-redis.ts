import type { Clock } from "../../base/clock.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import type { LimitTimers } from "./limit-timers.ts";
import { redisBounds } from "./redis-bounds.ts";
import { refusalWords, troubleOf } from "./redis-trouble.ts";

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
      if (clock.monotonicMs() + redisBounds.redisReopenMs > untilMs) {
        throw new StartRefused(
          `Keyrun can't use the Redis of KEYRUN_REDIS_URL (${trouble.message}). Check the address, and that Redis runs.`,
        );
      }
      await new Promise<void>((resolve) => timers.after(redisBounds.redisReopenMs, resolve));
    }
  }
}
