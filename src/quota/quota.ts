/**
 * How quotas work. A quota is so many requests in a day or a month of UTC, for a team by its plan
 * or for a key. The store has one record for each quota and period (`quota-store.ts`). An instance
 * claims a block of requests from it by one conditional write. It spends the block in memory
 * (`ledger.ts`), without a read of the store, and claims the next one before the block ends. So no
 * instance ever admits more than the store gave out, and a process that is killed loses at most
 * what it held. Towards the end of a quota the blocks are of one request.
 */

import type { QuotaLimit, QuotaPeriod } from "../settings/config.ts";

/** Whose requests are counted together, and up to what. */
export interface QuotaSubject {
  /** The team's id, or that of `keyLogId` for the quota that a key shares with its successors. */
  readonly id: string;
  readonly teamId: string;
  readonly limit: QuotaLimit;
  /** The minute's limit of the same requests: no block is larger than ten seconds of it. */
  readonly requestsPerMinute: number;
}

/** A quota in the present period. */
export interface QuotaState {
  readonly subject: "team" | "key";
  readonly limit: number;
  readonly period: QuotaPeriod;
  /** What instances hold counts as used. */
  readonly used: number;
  /** What this period has beside `limit`. */
  readonly granted: number;
  /** What this instance could still admit, as far as it knows: 0 or more. */
  readonly left: number;
  readonly startTimeMs: number;
  /** When the next period begins. */
  readonly resetTimeMs: number;
}

/** The requests of one decision, taken from each of its quotas. */
export interface QuotaReserved {
  readonly kind: "reserved";
  /** Gives them back where the decision admits nothing. Call it at most once. */
  release(): void;
}

/** One of the quotas has too little left, and nothing was taken from any. */
export interface QuotaExceeded {
  readonly kind: "exceeded";
  readonly state: QuotaState;
  /**
   * Until the next period begins, and at most a day; some seconds only, where another instance
   * holds requests that it may give back.
   */
  readonly retryAfterMs: number;
}

/** The quotas, as this instance knows them. */
export interface Quotas {
  /**
   * Takes the cost from all of the subjects or from none, at once. A promise: the store must be
   * asked first. Then ask again from the start once it resolves; nothing is taken yet. It rejects
   * with UNAVAILABLE where the store is away.
   */
  reserve(subjects: readonly QuotaSubject[], cost: number): QuotaReserved | QuotaExceeded | Promise<void>;
  /** The state as this instance knows it, without a read; undefined where it knows none. */
  known(subject: QuotaSubject): QuotaState | undefined;
  /** The state as the store has it. */
  state(subject: QuotaSubject): Promise<QuotaState>;
  /** Raises this period alone, once for each request id. Resolves with the state after it. */
  grant(subject: QuotaSubject, grant: { requests: number; requestId: string }): Promise<QuotaState>;
  /** The states of all teams that this instance knows of this period. */
  knownTeams(): Iterable<QuotaState>;
}

/** The state of a quota of which so many are claimed and granted, and held here. */
export function quotaStateOf(
  { id, teamId, limit: { requests: limit, period } }: QuotaSubject,
  { startMs: startTimeMs, endMs: resetTimeMs }: PeriodOfUtc,
  { claimed: used, granted, held }: { claimed: number; granted: number; held: number },
): QuotaState {
  const subject = id === teamId ? "team" : "key";
  const left = Math.max(0, limit + granted - used) + held;
  return { subject, limit, period, used, granted, left, startTimeMs, resetTimeMs };
}

/** The day or the month of UTC that a time lies in. */
export interface PeriodOfUtc {
  /** `2026-11-29`, or `2026-11`. */
  readonly id: string;
  readonly startMs: number;
  /** When the next one begins. */
  readonly endMs: number;
}

export function periodOf(period: QuotaPeriod, unixMs: number): PeriodOfUtc {
  const date = new Date(unixMs);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  const text = date.toISOString();
  return period === "day"
    ? { id: text.slice(0, 10), startMs: Date.UTC(year, month, day), endMs: Date.UTC(year, month, day + 1) }
    : { id: text.slice(0, 7), startMs: Date.UTC(year, month), endMs: Date.UTC(year, month + 1) };
}
