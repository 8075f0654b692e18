import type { Place } from "../../base/page.ts";
import type { RunRecordStore } from "../idempotency/run-record-store.ts";

/** What is kept of a run in the background. */
export interface BackgroundRecord {
  /** The run's id. */
  readonly id: string;
  readonly teamId: string;
  readonly appId: string;
  readonly keyId: string;
  readonly state: BackgroundState;
  /** The instance that runs it. No two starts of a process have one name. */
  readonly owner: string;
  /** The bytes of the text that is kept; null where none is. */
  readonly textBytes: number | null;
  /** Why it did not succeed: the reason, the words and the status for callers. Null otherwise. */
  readonly error: RunFault | null;
  readonly createTimeMs: number;
  /** Null while it runs. */
  readonly endTimeMs: number | null;
  /** From then on it may be removed. Null while it runs. */
  readonly expireTimeMs: number | null;
}

export interface RunFault {
  readonly code: string;
  readonly message: string;
  readonly status: number;
}

export type BackgroundState = "running" | "succeeded" | "failed" | "cancelled";

/** How a run ends. */
export interface BackgroundEnd {
  readonly state: Exclude<BackgroundState, "running">;
  /** Null: no text is kept. */
  readonly text: string | null;
  readonly error: RunFault | null;
  readonly endTimeMs: number;
  readonly expireTimeMs: number;
}

/** Which runs under way: those of a team, of an app, or of an owner. At least one is given. */
export interface RunsUnderWay {
  readonly teamId?: string;
  readonly appId?: string;
  /** Not those of these teams. */
  readonly exceptTeamIds?: readonly string[];
  readonly owner?: string;
}

/**
 * The runs in the background, of all teams. Every end is written on the condition that the run has
 * none: the first one stands. Promises as in `KeyStore`.
 */
export interface BackgroundRunStore extends Pick<RunRecordStore, "totals" | "dropTexts" | "deleteExpired"> {
  /** Adds a run that is under way. Where it throws, it may have been added. */
  insert(record: BackgroundRecord): Promise<void>;
  /**
   * Ends the run, unless it has an end already. Returns the record as it is then; undefined if
   * there is none. Where it throws, the end may have been written.
   */
  end(id: string, end: BackgroundEnd): Promise<BackgroundRecord | undefined>;
  /**
   * Ends at most `limit` of these runs, without a text. Returns their ids; none only if there are
   * none left. One that has ended meanwhile may be among them, and keeps its end.
   */
  endAll(runs: RunsUnderWay, end: BackgroundEnd, limit: number): Promise<string[]>;
  /** Removes the record, whatever its state. */
  remove(id: string): Promise<void>;
  /** Returns the record, even if it has expired; undefined if there is none. */
  find(id: string): Promise<BackgroundRecord | undefined>;
  /** Returns the kept text, exactly as it was written; null if none is kept. */
  textOf(id: string): Promise<string | null>;
  /** Those of the runs that are under way. */
  stillRunning(ids: readonly string[]): Promise<string[]>;
  /** Each owner of a run that is under way. */
  owners(): Promise<string[]>;
  /** The team's runs after this place, newest first; with `appIds` only those of these apps. */
  list(
    teamId: string,
    query: { after?: Place | undefined; limit: number; appIds?: readonly string[] },
  ): Promise<BackgroundRecord[]>;
  /** As `RunRecordStore.deleteOldest`, of the runs that have ended. */
  deleteOldest: RunRecordStore["deleteOldest"];
  /** As `RunRecordStore.deleteAll`, whatever their state. */
  deleteAll: RunRecordStore["deleteAll"];
}
