import { z } from "zod";
import type { Place } from "../../base/page.ts";
import { filled, timeMs } from "../../base/record-fields.ts";

/** What is kept of a run that was sent with an Idempotency-Key, or started in the background. */
export const runRecord = z.strictObject({
  /** The run's id. */
  id: filled,
  /**
   * What claims the run, unique among all records: a digest of team, app and Idempotency-Key. The
   * key itself is not stored. Where no key stands for the run, it is the run's id.
   */
  keyHash: filled,
  /** A digest of app and input, empty without a key. The same key with another input is refused. */
  fingerprint: z.string(),
  /** Started in the background, so it is in the list of its team. */
  listed: z.boolean(),
  teamId: filled,
  appId: filled,
  keyId: filled,
  state: z.enum(["running", "succeeded", "failed", "cancelled"]),
  /** The instance that runs it. No two starts of a process have one name. */
  owner: filled,
  /** The bytes of the text that is kept of its output; null where none is. */
  textBytes: z.int().nonnegative().nullable(),
  /** Why it did not succeed: the reason, the words and the status for callers. Null otherwise. */
  error: z.object({ code: filled, message: z.string(), status: z.int().positive() }).nullable(),
  createTimeMs: timeMs,
  /** Null while it runs. */
  endTimeMs: timeMs.nullable(),
  /** From then on it may be removed, and its key is free. It is set anew at the end of the run. */
  expireTimeMs: timeMs,
});
export type RunRecord = Readonly<z.infer<typeof runRecord>>;
export type RunState = RunRecord["state"];
export type RunFault = NonNullable<RunRecord["error"]>;

/** How a run ends. */
export interface RunEnd {
  readonly state: Exclude<RunState, "running">;
  /** What is kept of the output, as `readOutput` reads it. Null: nothing is kept. */
  readonly text: string | null;
  readonly error: RunFault | null;
  readonly endTimeMs: number;
  readonly expireTimeMs: number;
  /** The key stands for the run no longer: its app has got nothing. */
  readonly freesKey?: boolean;
}

export type RunChange =
  /** Adds the record, unless there is one with its `keyHash`, expired or not. */
  | { readonly kind: "insert"; readonly id: string; readonly record: RunRecord }
  /** Ends the run, unless it has an end: the first one stands. */
  | { readonly kind: "end"; readonly id: string; readonly end: RunEnd }
  /** Removes the record. Changes nothing where it is in another state. */
  | { readonly kind: "remove"; readonly id: string; readonly state: RunState };

/** Which runs under way: those of a team, of an app, or of an owner. At least one is given. */
export interface RunsUnderWay {
  readonly teamId?: string;
  readonly appId?: string;
  /** Not those of these teams. */
  readonly exceptTeamIds?: readonly string[];
  readonly owner?: string;
  readonly listed?: boolean;
}

/** Records, and the bytes of their texts. */
export interface RecordTotals {
  readonly records: number;
  readonly textBytes: number;
}

/** What is kept of the runs of all teams. Promises as in `KeyStore`. */
export interface RunStore {
  /**
   * Makes the changes, each whole or not at all, in one durable write; no two of them may have one
   * id or insert one `keyHash`. Returns one value for each, in their order: the record that stood
   * in the way of an insert or an end; undefined where there was none. Where it throws, each of the
   * changes may have been made.
   */
  write(changes: readonly RunChange[]): Promise<(RunRecord | undefined)[]>;
  /**
   * Ends at most `limit` of these runs, without a text. Returns their ids; none only if there are
   * none left. One that has ended meanwhile may be among them, and keeps its end.
   */
  endAll(runs: RunsUnderWay, end: RunEnd, limit: number): Promise<string[]>;
  /** Returns the record, even if it has expired; undefined if there is none. */
  find(id: string): Promise<RunRecord | undefined>;
  /** As `find`, by what claims the run. */
  findByKey(keyHash: string): Promise<RunRecord | undefined>;
  /** Returns the kept text, exactly as it was written; null if none is kept. */
  textOf(id: string): Promise<string | null>;
  /** Those of the runs that are under way. */
  stillRunning(ids: readonly string[]): Promise<string[]>;
  /** Each owner of a run that is under way. */
  owners(): Promise<string[]>;
  /** The team's listed runs after this place, newest first; with `appIds` only those of these. */
  list(
    teamId: string,
    query: { after?: Place | undefined; limit: number; appIds?: readonly string[] },
  ): Promise<RunRecord[]>;
  /** Counts the records of a team. */
  totals(teamId: string): Promise<RecordTotals>;
  /**
   * Removes at most `limit` of the team's records that have ended and were created at
   * `createdUntilMs` or before, oldest first, and fewer if their texts are large. Returns what was
   * removed; it is nothing only if there are none.
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
   * Removes at most `limit` records of a team, whatever their state, and fewer if their texts are
   * large. Returns how many were removed; 0 only if there are none.
   */
  deleteAll(teamId: string, limit: number): Promise<number>;
}
