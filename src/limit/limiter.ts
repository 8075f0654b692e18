/**
 * How limiting works. A limit is N requests in any 60 s. Each team has an exact log of the times of
 * its accepted requests (`sliding-log.ts`): a request is accepted if fewer than N of them are
 * younger than a minute. Otherwise its refusal says when enough of them will have left the window.
 * A key with a limit of its own has a log too, and its requests need room in both. This file keeps
 * the logs of a process that counts alone: a start begins with empty ones. In a fleet, the logs are
 * in Redis (`redis/`), where one script decides all requests of a turn of the event loop. While
 * Redis does not answer, each instance counts here, up to its share of each limit (`share.ts`).
 */

import type { Clock } from "../base/clock.ts";
import { unavailable } from "../refusal/refusal.ts";
import { type KeyLimit, keyLogId, type LimitDecision } from "./limit-decision.ts";
import { LogTable, SlidingLog } from "./sliding-log.ts";

/** Counts in this process alone. */
export interface Limiter {
  /**
   * Takes all of `cost` or nothing: a whole number from 0 to `limit`, where 0 is as `peek`. No
   * window ever accepts more than `limit`, and nothing below it is refused. If the key has a limit
   * of its own, both must have room; if one has none, nothing is taken from the other.
   */
  spend(id: string, limit: number, cost?: number, key?: KeyLimit): LimitDecision;
  /** What is left, without spending, and without keeping a log for the id. */
  peek(id: string, limit: number, key?: KeyLimit): LimitDecision;
  /** How many logs there are, those of keys too; memory is bounded by it. */
  size(): number;
}

/**
 * One exact sliding log for each id, in this process. There are at most `logsMax` logs, each of 8
 * bytes for each request of its limit. Empty logs are dropped as requests come in, without a timer.
 * Where there are `logsMax` logs and none is empty, a new id is refused with UNAVAILABLE:
 * forgetting a log that counts would let its owner pass the limit. With `whenFull: "forget"` the
 * log idle longest is forgotten instead; that suits a limit that saves cost and promises nothing.
 * The logs of keys have a bound of their own, `keyLogsMax`, so that they never take the place of a
 * team's.
 */
export function createLimiter(options: {
  clock: Clock;
  windowMs: number;
  logsMax: number;
  /** By default `logsMax`. */
  keyLogsMax?: number;
  whenFull?: "refuse" | "forget";
}): Limiter {
  const { clock, windowMs, logsMax, keyLogsMax = logsMax, whenFull = "refuse" } = options;
  const table = new LogTable(windowMs);
  const keyTable = new LogTable(windowMs);
  /** Stands for a log that does not exist yet. */
  const emptyLog = new SlidingLog(windowMs);
  let nowMs = Number.NEGATIVE_INFINITY;

  /** One time for all logs, which never steps back: the table's order depends on it. */
  function advance(): void {
    nowMs = Math.max(nowMs, clock.monotonicMs());
    table.dropEmpty(nowMs, dropsPerCallMax);
    keyTable.dropEmpty(nowMs, dropsPerCallMax);
  }

  function makeRoom(logs: LogTable, max: number): void {
    if (logs.size < max) return;
    if (whenFull === "refuse") throw unavailable();
    logs.dropFirst();
  }

  function addLog(id: string) {
    makeRoom(table, logsMax);
    return table.add(id);
  }

  function peek(id: string, limit: number, key?: KeyLimit): LimitDecision {
    advance();
    const team = peekAt(table, id, limit);
    return key === undefined
      ? team
      : { ...team, key: peekAt(keyTable, keyLogId(id, key.firstKeyId), key.limit) };
  }

  function peekAt(logs: LogTable, id: string, limit: number): LimitDecision {
    const log = logs.find(id)?.log;
    log?.spend(nowMs, limit, 0);
    return decision(log, limit, 0, clock.unixMs());
  }

  /** Asks both logs before it takes from either. */
  function spendBoth(id: string, limit: number, cost: number, key: KeyLimit): LimitDecision {
    advance();
    const keyLog = keyLogId(id, key.firstKeyId);
    let [team, own] = [table.find(id), keyTable.find(keyLog)];
    const teamWaitMs = (team?.log ?? emptyLog).waitMs(nowMs, limit, cost);
    const keyWaitMs = (own?.log ?? emptyLog).waitMs(nowMs, key.limit, cost);
    const accepted = teamWaitMs === 0 && keyWaitMs === 0;
    if (accepted) {
      // Room for both logs, before one is added: a log without a request must not stay.
      if (own === undefined) makeRoom(keyTable, keyLogsMax);
      team ??= addLog(id);
      own ??= keyTable.add(keyLog);
      team.log.spend(nowMs, limit, cost);
      own.log.spend(nowMs, key.limit, cost);
      table.touch(team);
      keyTable.touch(own);
    }
    const unixMs = clock.unixMs();
    return {
      ...decision(team?.log, limit, teamWaitMs, unixMs),
      accepted,
      key: { ...decision(own?.log, key.limit, keyWaitMs, unixMs), accepted },
    };
  }

  return {
    spend(id, limit, cost = 1, key) {
      if (cost === 0) return peek(id, limit, key);
      if (key !== undefined) return spendBoth(id, limit, cost, key);
      advance();
      const entry = table.find(id) ?? addLog(id);
      const waitMs = entry.log.spend(nowMs, limit, cost);
      if (waitMs === 0) table.touch(entry);
      return decision(entry.log, limit, waitMs, clock.unixMs());
    },
    peek,
    size: () => table.size + keyTable.size,
  };
}

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
