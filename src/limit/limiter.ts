import type { Clock } from "../clock.ts";
import { unavailable } from "../refusal/refusal.ts";
import { LogTable } from "./log-table.ts";
import type { SavedWindow } from "./saved-window.ts";
import type { SlidingLog } from "./sliding-log.ts";

/** What became of a cost, and the state of the limit after it. */
export interface LimitDecision {
  /** Whether the cost was taken; true where the cost is 0. */
  readonly accepted: boolean;
  readonly limit: number;
  /** What is left of the window after this, from 0 to `limit`. */
  readonly remaining: number;
  /**
   * When the oldest counted request leaves the window, in Unix milliseconds; now where none is
   * counted.
   */
  readonly resetUnixMs: number;
  /**
   * After how long the same cost would be accepted if nobody else spent: 0 where accepted, at most
   * the window.
   */
  readonly retryAfterMs: number;
}

/** The limits of teams, as their callers see them. */
export interface TeamLimiter {
  /** As `Limiter.spend`. Synchronous where this process counts alone. */
  spend(id: string, limit: number, cost: number): LimitDecision | Promise<LimitDecision>;
  /**
   * What is left as far as this process knows, at once: for the headers of an answer that comes
   * later.
   */
  look(id: string, limit: number): LimitDecision;
}

/** Counts in this process alone. */
export interface Limiter {
  /**
   * Takes `cost`, a whole number from 0 to `limit`, whole or not at all; 0 only looks. No window
   * ever accepts more than `limit`, and nothing below it is refused.
   */
  spend(id: string, limit: number, cost?: number): LimitDecision;
  /** What is left, without spending, and without keeping a log for the id. */
  look(id: string, limit: number): LimitDecision;
  /** How many logs are held; memory is bounded by it. */
  size(): number;
  /**
   * What counts now, for the limiter of a later process. Read its logs before anything else is
   * spent.
   */
  save(): SavedWindow;
  /**
   * Takes up what an earlier process saved; call it before anything is spent. The time between the
   * two is that of the wall clock, less a millisecond, because that clock shows whole ones: so no
   * request leaves the window early, and none more than a millisecond late. A wall clock that was
   * set back in between counts as standing still, so a request leaves within a window of this call.
   * One that was set forward lets requests leave early, by as much.
   */
  restore(saved: SavedWindow): void;
}

/**
 * One exact sliding log for each id, in this process. At most `logsMax` logs are held, each of 8
 * bytes for each request of its limit. Empty logs are dropped as requests come in, without a timer.
 * Where `logsMax` logs are held and none is empty, a new id is refused with UNAVAILABLE: forgetting
 * a log that counts would let its owner pass the limit. With `whenFull: "forget"` the log idle
 * longest is forgotten instead; that suits a limit that saves cost and promises nothing.
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

  function* savedLogs() {
    for (const { id, log } of table.newestFirst()) {
      const moments = log.moments(nowMs);
      if (moments.length > 0) yield { id, moments };
    }
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
    save() {
      advance();
      return { savedUnixMs: clock.unixMs(), logs: savedLogs() };
    },
    restore({ savedUnixMs, logs }) {
      advance();
      const laterMs = Math.max(0, clock.unixMs() - savedUnixMs - wallClockTickMs);
      // The table is in the order of the last acceptance.
      for (const { id, moments } of [...logs].slice(0, logsMax).reverse()) {
        const { log } = table.add(id);
        log.restore(nowMs, moments, laterMs);
      }
    },
  };
}

/** What a time of the wall clock may lack of the true one. */
const wallClockTickMs = 1;

/** More than the one log that a call can add, so that the table shrinks after a rush. */
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
