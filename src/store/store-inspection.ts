import type { LeaseRecord } from "../fleet/control-store.ts";
import type { Config } from "../settings/config.ts";

/** An instance of a fleet, as it was seen. */
export interface SeenInstance extends LeaseRecord {
  /** How long the look saw no heartbeat of it, up to its end. */
  readonly silentMs: number;
}

/**
 * What a look at a store found. Nothing in the store was changed by it, though SQLite may have put
 * an empty log and its shared memory beside the file.
 */
export interface StoreInspection {
  /** What it is, for the operator, like "schema 5". */
  readonly words: string;
  /** Another process serves the store alone now, so a start would be refused. */
  readonly isServed: boolean;
  /**
   * A process that serves the store alone has not left it: it serves now, or is suspended and may
   * go on, or was killed. The next start finds out which.
   */
  readonly isHeld: boolean;
  /** The instances of a fleet that serve the store now, by order of registration. */
  readonly instances: readonly LeaseRecord[];
  /** All of a fleet that have not left, also those that are silent and may go on. */
  readonly registered: readonly SeenInstance[];
  /** As `KeyStore.secretVersions`; read after all of the above. */
  readonly secretVersions: readonly string[];
  /** The id of its fleet; absent where it never had one. */
  readonly fleetId?: string;
  /** The newest schema that this Keyrun knows; absent for the embedded store: it has no fleet. */
  readonly newestSchema?: number;
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
