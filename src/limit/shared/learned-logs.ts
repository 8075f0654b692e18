import type { Clock } from "../../base/clock.ts";
import type { LimitDecision } from "../limiter.ts";
import type { LogState } from "./shared-logs.ts";

/** What this process last learned of each shared log: those of teams, or those of keys. */
export interface LearnedLogs {
  learn(logId: string, state: LogState): void;
  /** As last learned. An id of which nothing is known has its whole limit left. */
  look(logId: string, limit: number): LimitDecision;
}

/** Past `logsMax` the log learned of first is forgotten. */
export function createLearnedLogs(clock: Clock, logsMax: number): LearnedLogs {
  const learned = new Map<string, { count: number; resetMs: number }>();
  return {
    learn(logId, { count, resetAfterMs }) {
      const resetMs = clock.monotonicMs() + resetAfterMs;
      const known = learned.get(logId);
      if (known) {
        known.count = count;
        known.resetMs = resetMs;
        return;
      }
      const [first] = learned.keys();
      if (learned.size >= logsMax && first !== undefined) learned.delete(first);
      learned.set(logId, { count, resetMs });
    },
    look(logId, limit) {
      const known = learned.get(logId);
      return {
        accepted: true,
        limit,
        remaining: Math.max(0, limit - (known?.count ?? 0)),
        resetUnixMs: clock.unixMs() + Math.max(0, (known?.resetMs ?? 0) - clock.monotonicMs()),
        retryAfterMs: 0,
      };
    },
  };
}
