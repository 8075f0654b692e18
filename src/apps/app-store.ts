/** An app and where its runs are sent: the record, and the port of the store. */

export type BackendRecord =
  | { readonly kind: "echo" }
  | { readonly kind: "http"; readonly url: string; readonly headers: readonly HeaderRecord[] }
  | { readonly kind: "grpc"; readonly target: string; readonly tls: boolean }
  /** A service behind a proxy, which asks whether a caller may. It can't be run. */
  | { readonly kind: "guard" };

export interface HeaderRecord {
  readonly name: string;
  /** May be a credential: never logged, and never part of an answer. */
  readonly value: string;
}

export interface AppRecord {
  readonly id: string;
  readonly displayName: string;
  readonly backend: BackendRecord;
  /** The longest time of a run whose caller waits. */
  readonly timeoutMs: number;
  readonly streamTimeoutMs: number;
  /** The longest time of a run in the background. */
  readonly backgroundTimeoutMs: number;
  /** The teams that may run the app; empty: all. */
  readonly teamIds: readonly string[];
  readonly createTimeMs: number;
  /**
   * The version that floors compare. It grows with every change, also when the app is deleted and
   * created anew.
   */
  readonly version: number;
}

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
