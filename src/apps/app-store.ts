export type BackendRecord =
  | { readonly kind: "echo" }
  | { readonly kind: "http"; readonly url: string; readonly headers: readonly HeaderRecord[] }
  | { readonly kind: "grpc"; readonly target: string; readonly tls: boolean };

export interface HeaderRecord {
  readonly name: string;
  /** May be a credential: never logged, never answered. */
  readonly value: string;
}

export interface AppRecord {
  readonly id: string;
  readonly displayName: string;
  readonly backend: BackendRecord;
  readonly timeoutMs: number;
  /** The teams that may run the app; empty: all. */
  readonly teamIds: readonly string[];
  readonly createTimeMs: number;
  /** Grows with every change, also over a deletion and a new creation: the version that floors compare. */
  readonly version: number;
}

/** What a caller of `insert` gives: the store numbers the version. */
export type NewApp = Omit<AppRecord, "version">;
export type AppChange = Partial<Pick<AppRecord, "displayName" | "backend" | "timeoutMs" | "teamIds">>;

/** All apps. Promises as in `KeyStore`. Ids are compared by code unit. */
export interface AppStore {
  /** Adds an app and answers with it; undefined, and nothing written, where the id is taken. */
  insert(app: NewApp): Promise<AppRecord | undefined>;
  /** The app; undefined where there is none or it was deleted. */
  find(appId: string): Promise<AppRecord | undefined>;
  /**
   * Apps by id, ascending; at most `limit`, after the id `after` where it is given; with `runnableBy` only those
   * that name this team or none.
   */
  list(query: { limit: number; after?: string; runnableBy?: string }): Promise<AppRecord[]>;
  /**
   * Changes the given fields, raises the version and answers with the changed app; undefined where there is none, or
   * with `version` none of that version.
   */
  update(appId: string, change: AppChange, version?: number): Promise<AppRecord | undefined>;
  /**
   * Deletes the app and answers with the version that the deletion has, above every version the app had;
   * undefined where there is none.
   */
  delete(appId: string): Promise<number | undefined>;
}
