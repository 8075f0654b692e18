import { randomUUID } from "node:crypto";
import type { Clock } from "../clock.ts";
import type { InstanceEvents } from "../fleet/instance-guard.ts";
import type { Config } from "../settings/config.ts";
import { openMongoStores } from "./mongo/open-stores.ts";
import { openSqliteStores } from "./sqlite/open-stores.ts";
import type { Stores } from "./stores.ts";

/** Opens the store that the settings name: MongoDB where a URI is set, else the embedded one. */
export function openStores(
  { mongodbUri, dataDir }: Pick<Config, "mongodbUri" | "dataDir">,
  parts: { readonly clock: Clock; readonly events: InstanceEvents; readonly signal?: AbortSignal },
): Promise<Stores> {
  if (mongodbUri === undefined) return openSqliteStores({ dataDir });
  return openMongoStores({ ...parts, uri: mongodbUri, newIncarnation: randomUUID });
}
