/** What is kept of a run that was sent with an Idempotency-Key. */
export interface RunRecord {
  /** A digest of team, app and key. The key itself is not stored. */
  readonly id: string;
  readonly teamId: string;
  /** A digest of app and text. The same key with another text is refused. */
  readonly fingerprint: string;
  readonly runId: string;
  readonly state: RunState;
  /** The bytes of the text that is kept; 0 where none is. */
  readonly textBytes: number;
  readonly createTimeMs: number;
  /** The latest time at which the app may be at work on the run. */
  readonly runUntilMs: number;
  /** After this time the key is free again. */
  readonly expireTimeMs: number;
}

/**
 * `running`: the app may be at work, or the process ended before it could write the outcome.
 * `background`: the record of the run in the background has the outcome.
 */
export type RunState = "running" | "background" | EndState;
/**
 * The outcome of the run. If the app refused it, the state is `app_failed` and the text has the
 * app's words. After the text is dropped, a repeat gets APP_FAILED without them.
 */
export type EndState = "done" | "app_failed" | "app_timeout";

/** A record as it is claimed. */
export type RunClaim = Omit<RunRecord, "state" | "textBytes"> & {
  readonly state: "running" | "background";
};

export type RunRecordChange =
  /** Adds a record, unless there is one with this id, expired or not. */
  | { readonly kind: "claim"; readonly id: string; readonly claim: RunClaim }
  /**
   * Writes what came of a run. Changes nothing where the record is gone, of another run, or has an
   * end: the first one stands.
   */
  | RunEnd
  /** Removes the record. Changes nothing where it is of another run, or in another state. */
  | RunRelease;

export interface RunEnd {
  readonly kind: "end";
  readonly id: string;
  readonly runId: string;
  readonly state: EndState;
  /** Null: no text is kept. */
  readonly text: string | null;
  readonly textBytes: number;
  readonly expireTimeMs: number;
}

export interface RunRelease {
  readonly kind: "release";
  readonly id: string;
  readonly runId: string;
  readonly state: RunState;
}

/** Records, and the bytes of their texts. */
export interface RecordTotals {
  readonly records: number;
  readonly textBytes: number;
}

/** What is kept of the runs of all teams. Promises as in `KeyStore`. */
export interface RunRecordStore {
  /**
   * Makes the changes, each whole or not at all, in one durable write; no two of them may have one
   * id. Returns one value for each, in their order: the record that stood in the way of a claim,
   * otherwise undefined. Where it throws, each of the changes may have been made.
   */
  write(changes: readonly RunRecordChange[]): Promise<(RunRecord | undefined)[]>;
  /** Returns the record, even if it has expired; undefined if there is none. */
  find(id: string): Promise<RunRecord | undefined>;
  /** Returns the kept text of a run, exactly as it was written; null if none is kept. */
  textOf(id: string, runId: string): Promise<string | null>;
  /** Counts the records of a team. */
  totals(teamId: string): Promise<RecordTotals>;
  /**
   * Removes at most `limit` of the team's records that were created at `createdUntilMs` or before,
   * oldest first, and fewer if their texts are large. Returns what was removed; it is nothing only
   * if there are none.
   */
  deleteOldest(teamId: string, query: { createdUntilMs: number; limit: number }): Promise<RecordTotals>;
  /**
   * Removes texts of the team, first those of the records that expire first, until at least `bytes`
   * are free, but at most `limit` texts. The records stay. Returns how many bytes were freed.
   */
  dropTexts(teamId: string, query: { bytes: number; limit: number }): Promise<number>;
  /**
   * Removes at most `limit` records that expired at `nowMs` or before, first those that expired
   * first, and fewer if their texts are large. Returns what was removed, by team; it is nothing
   * only if there are none.
   */
  deleteExpired(query: { nowMs: number; limit: number }): Promise<ReadonlyMap<string, RecordTotals>>;
  /**
   * Removes at most `limit` records of a team, and fewer if their texts are large. Returns how many
   * were removed; 0 only if there are none.
   */
  deleteAll(teamId: string, limit: number): Promise<number>;
}
