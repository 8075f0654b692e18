/** An app and where its runs are sent: the record, and the port of the store. */

import { z } from "zod";
import { filled, timeMs, version } from "../base/record-fields.ts";

const headerRecord = z.object({
  name: filled,
  /** May be a credential: never logged, and never part of an answer. */
  value: z.string(),
});
export type HeaderRecord = Readonly<z.infer<typeof headerRecord>>;

/** How an app's own format is written and read. What is empty was not given. */
const templateRecord = z.object({
  /** The JSON that is sent, with placeholders. */
  request: z.string(),
  /** JSON Pointers to the text: in a whole answer, and in a message of a stream. */
  textAt: z.string(),
  /** The pointer to the JSON. Empty, it is the whole answer; absent, there is none. */
  outputAt: z.string().exactOptional(),
  streamTextAt: z.string(),
  /** `member=value` of the messages of a stream that have text. */
  streamEvent: z.string(),
});
export type TemplateRecord = Readonly<z.infer<typeof templateRecord>>;

// A newer instance of a fleet may have added a field, which is ignored.
const backendRecord = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("echo") }),
  z.object({
    kind: z.literal("http"),
    url: filled,
    headers: z.array(headerRecord).readonly(),
    /** Absent where the app speaks Keyrun's own format. */
    template: templateRecord.exactOptional(),
  }),
  z.object({ kind: z.literal("grpc"), target: filled, tls: z.boolean() }),
  /** A service behind a proxy, which asks whether a caller may. It can't be run. */
  z.object({ kind: z.literal("guard") }),
]);
export type BackendRecord = Readonly<z.infer<typeof backendRecord>>;

export const appRecord = z.strictObject({
  id: filled,
  displayName: z.string(),
  backend: backendRecord,
  /** The longest time of a run whose caller waits. */
  timeoutMs: z.int().positive(),
  streamTimeoutMs: z.int().positive(),
  /** The longest time of a run in the background. */
  backgroundTimeoutMs: z.int().positive(),
  /** The teams that may run the app; empty: all. */
  teamIds: z.array(filled).readonly(),
  createTimeMs: timeMs,
  /**
   * The version that floors compare. It grows with every change, also when the app is deleted and
   * created anew.
   */
  version,
});
export type AppRecord = Readonly<z.infer<typeof appRecord>>;

/** The input of `insert`: the store sets the version. */
export type NewApp = Omit<AppRecord, "version">;
/** The new values of the fields that change. */
export type AppChange = Partial<
  Pick<
    AppRecord,
    "displayName" | "backend" | "timeoutMs" | "streamTimeoutMs" | "backgroundTimeoutMs" | "teamIds"
  >
>;

/** All apps. Promises as in `KeyStore`. Ids are compared by code unit. */
export interface AppStore {
  /** Adds an app and returns it; undefined, and nothing written, where the id is taken. */
  insert(app: NewApp): Promise<AppRecord | undefined>;
  /** The app; undefined where there is none or it was deleted. */
  find(appId: string): Promise<AppRecord | undefined>;
  /**
   * Apps by id, ascending. At most `limit`, and only those after the id `after` where it is given.
   * With `runnableBy`, only apps that name this team or no team.
   */
  list(query: { limit: number; after?: string; runnableBy?: string }): Promise<AppRecord[]>;
  /** The ids of apps that name this team, ascending; at most `limit`. */
  limitedTo(teamId: string, limit: number): Promise<string[]>;
  /**
   * Changes the given fields, raises the version and returns the changed app. Undefined where there
   * is none; with `version`, also where the app has another version.
   */
  update(appId: string, change: AppChange, version?: number): Promise<AppRecord | undefined>;
  /**
   * Deletes the app and returns the version of the deletion, which is above every version that the
   * app had. Undefined where there is none.
   */
  delete(appId: string): Promise<number | undefined>;
  /**
   * The version of the deletion of this id, durable like a write. Undefined where the app exists,
   * or never did.
   */
  deletedVersion(appId: string): Promise<number | undefined>;
}
