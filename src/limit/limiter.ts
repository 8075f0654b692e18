import type { Clock } from "../clock.ts";
import { unavailable } from "../error.ts";
import { LogTable } from "./log-table.ts";
import type { SlidingLog } from "./sliding-log.ts";

export interface LimitDecision {
  /** Whether the cost was taken; true where nothing was asked for. */
  readonly accepted: boolean;
  readonly limit: number;
  /** What is left of the window after this, from 0 to `limit`. */
  readonly remaining: number;
  /** When the oldest that is counted leaves the window, in Unix milliseconds; now where nothing is counted. */
  readonly resetUnixMs: number;
  /** After how long the same would be accepted if nobody took the slot: 0 where accepted, at most the window. */
  readonly retryAfterMs: number;
}

export interface Limiter {
  /**
   * Takes `cost`, a whole number from 0 to `limit`, at once or not at all; 0 only looks. Never more than `limit`
   * accepted in any window, and no refusal below it.
   */
  spend(id: string, limit: number, cost?: number): LimitDecision;
  /** What is left, without spending and without remembering that it was asked. */
  look(id: string, limit: number): LimitDecision;
  /** How many logs are held. */
  size(): number;
}

/**
 * One exact sliding log for each id, in this process. At most `logsMax` are held, of 8 bytes for each request of
 * a limit; those that became empty are dropped as requests come in, without a timer. Past `logsMax`, while no
 * log is empty, a new id is refused with UNAVAILABLE, because to forget a log that counts would let its owner
 * pass the limit; with `whenFull: "forget"` the log idle longest is forgotten, for limits that protect a cost
 * and not a promise.
 */
export function createLimiter(options: {
  clock: Clock;
  windowMs: number;
  logsMax: number;
  whenFull?: "refuse" | "forget";
}): Limiter {
  const { clock, windowMs, logsMax, whenFull = "refuse" } = options;
  const table = new LogTable(windowMs);
  let nowMs = Number.NEGATIVE_INFINITY;

  /** One time for all logs, which never steps back: the table's order depends on it. */
  function advance(): void {
    nowMs = Math.max(nowMs, clock.monotonicMs());
    table.dropEmpty(nowMs, dropsPerCallMax);
  }

  function addLog(id: string) {
    if (table.size >= logsMax) {
      if (whenFull === "refuse") throw unavailable();
      table.dropFirst();
    }
    return table.add(id);
  }

  function look(id: string, limit: number): LimitDecision {
    advance();
    const log = table.find(id)?.log;
    log?.spend(nowMs, limit, 0);
    return decision(log, limit, 0, clock.unixMs());
  }

  return {
    spend(id, limit, cost = 1) {
      if (cost === 0) return look(id, limit);
      advance();
      const entry = table.find(id) ?? addLog(id);
      const waitMs = entry.log.spend(nowMs, limit, cost);
      if (waitMs === 0) table.touch(entry);
      return decision(entry.log, limit, waitMs, clock.unixMs());
    },
    look,
    size: () => table.size,
  };
}

/** More than the one log that a call can add, so the table shrinks after a rush. */
const dropsPerCallMax = 2;

function decision(
  log: SlidingLog | undefined,
  limit: number,
  waitMs: number,
  nowUnixMs: number,
): LimitDecision {
  return {
    accepted: waitMs === 0,
    limit,
    remaining: Math.max(0, limit - (log?.count ?? 0)),
    resetUnixMs: nowUnixMs + (log?.resetAfterMs ?? 0),
    retryAfterMs: waitMs,
  };
}
