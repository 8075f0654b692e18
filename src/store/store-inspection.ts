import type { Config } from "../settings/config.ts";

/**
 * What a look at a store found. Nothing in the store was changed by it, though SQLite may have put
 * an empty log and its shared memory beside the file.
 */
export interface StoreInspection {
  /** What it is, for the operator, like "schema 5". */
  readonly words: string;
  /** Another process serves the store now, so a start would be refused. */
  readonly isServed: boolean;
  /** As `KeyStore.secretVersions`. */
  readonly secretVersions: readonly string[];
}

/**
 * Looks at the store that the settings name, as a start would, while another process may serve it.
 * Throws StartRefused, with the words of a start, where a start could not open it. Ends within
 * about `msMax`.
 */
export async function inspectStore(
  { mongodbUri, dataDir }: Pick<Config, "mongodbUri" | "dataDir">,
  { msMax }: { readonly msMax: number },
): Promise<StoreInspection> {
  if (mongodbUri === undefined) {
    const { inspectSqliteStore } = await import("./sqlite/inspect-store.ts");
    return inspectSqliteStore({ dataDir });
  }
  const { inspectMongoStore } = await import("./mongo/inspect-store.ts");
  return inspectMongoStore({ uri: mongodbUri, msMax });
}
