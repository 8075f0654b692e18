import type { Spend } from "../limit-decision.ts";

/** Alike spends of one team that came one after the other: at least 1. */
export interface Ask extends Spend {
  readonly count: number;
}

/** What became of an ask. */
export interface Answer extends LogState {
  /** How many of the spends were taken: always the first ones. All of them where the cost is 0. */
  readonly taken: number;
  /** The key's own log after it, where the ask names a key; what is outside of it is the team's. */
  readonly key?: LogState;
}

/** A log after an ask. */
export interface LogState {
  /** How many requests count after it. */
  readonly count: number;
  /** When the oldest of them leaves the window; 0 where none counts. */
  readonly resetAfterMs: number;
  /**
   * When this log would take the spends that were not taken, if nobody else spent; 0 where all were
   * taken, or where it has room.
   */
  readonly retryAfterMs: number;
}

/** A connection to the logs that all instances share. */
export interface SharedLogs {
  /**
   * Decides these asks in their order, in one step, and answers each. After `giveUpMs` of the
   * monotonic clock it spends nothing any more, and resolves with undefined. Rejects where the
   * connection is of no more use; whether the asks were counted is then not known.
   */
  spend(asks: readonly Ask[], giveUpMs: number): Promise<readonly Answer[] | undefined>;
  /** Drops the connection at once. What is under way may never be answered. */
  close(): void;
}

/**
 * Opens a connection, and proves by a write that it is of use. Rejects where it is not, within a
 * bound of time. `lost` is called at most once, when an opened connection ends by itself.
 */
export type OpenSharedLogs = (lost: (cause: unknown) => void) => Promise<SharedLogs>;
