import { randomUUID } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import type { InstanceEvents } from "../fleet/instance-guard.ts";
import { type CopiedCounts, copyStore } from "./copy-store.ts";

/**
 * Copies the embedded store of a data folder into an empty database of MongoDB, while neither is
 * served. `allow` is called with the versions of the secrets that keys need, before anything is
 * written, and may throw. Throws StartRefused with what to do. A copy that was cut off leaves a
 * database that no Keyrun starts on, and the next copy begins anew.
 */
export async function copyDataFolder(
  { dataDir, mongodbUri }: { readonly dataDir: string; readonly mongodbUri: string },
  parts: {
    readonly clock: Clock;
    readonly events: InstanceEvents;
    readonly allow: (secretVersions: readonly string[]) => Promise<void>;
  },
): Promise<CopiedCounts> {
  const { openSqliteSource } = await import("./sqlite/copy-source.ts");
  const { openMongoTarget } = await import("./mongo/copy-target.ts");
  const source = openSqliteSource({ dataDir });
  try {
    await parts.allow(source.secretVersions());
    const target = await openMongoTarget({ ...parts, uri: mongodbUri, newIncarnation: randomUUID });
    try {
      return await copyStore(source, target);
    } finally {
      await target.close();
    }
  } finally {
    source.close();
  }
}
