import { randomUUID } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import type { InstanceEvents } from "../fleet/alone.ts";
import type { Config } from "../settings/config.ts";
import type { ReserveState } from "./sqlite/disk-reserve.ts";
import type { StoreInspection, Stores } from "./stores.ts";

/**
 * Opens the store that the settings name: MongoDB where a URI is set, else the embedded one. With a
 * Redis for shared limits, it serves MongoDB together with others, and not alone. Only that one's
 * code is loaded: the driver of MongoDB is a quarter of all modules.
 */
export async function openStores(
  {
    mongodbUri,
    dataDir,
    sharedLimit,
  }: Pick<Config, "mongodbUri" | "dataDir"> & Partial<Pick<Config, "sharedLimit">>,
  parts: {
    readonly clock: Clock;
    readonly events: InstanceEvents;
    readonly signal?: AbortSignal;
    /** As in `openMongoStores`. */
    readonly startMsMax?: number;
    /** As in `openSqliteStores`. */
    readonly onReserve?: (state: ReserveState) => void;
    /** As in `openMongoStores`. */
    readonly onNoReplicaSet?: () => void;
  },
): Promise<Stores> {
  if (mongodbUri === undefined) {
    const { openSqliteStores } = await import("./sqlite/open-stores.ts");
    return openSqliteStores({ dataDir, onReserve: parts.onReserve });
  }
  const { openMongoStores } = await import("./mongo/open-stores.ts");
  return openMongoStores({
    ...parts,
    uri: mongodbUri,
    newIncarnation: randomUUID,
    fleet: sharedLimit !== undefined,
  });
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
