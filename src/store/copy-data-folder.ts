import { randomUUID } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import type { InstanceEvents } from "../fleet/alone.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { type CopiedName, copiedNames } from "./records.ts";

/** How many records of each kind were copied. */
export type CopiedCounts = Readonly<Record<CopiedName, number>>;

/**
 * Copies the embedded store of a data folder into an empty database of MongoDB, while neither is
 * served, and compares the two. `allow` is called with the versions of the secrets that keys need,
 * before anything is written, and may throw. Throws StartRefused with what to do. A copy that was
 * cut off, or that is not the same, leaves a database that no Keyrun starts on, and the next copy
 * begins anew. The folder stays as it is.
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
      const counts = new Map(copiedNames.map((name) => [name, 0]));
      for (const batch of source.batches()) {
        await target.write(batch);
        counts.set(batch.name, (counts.get(batch.name) ?? 0) + batch.records.length);
      }
      for (const batch of source.batches()) if (!(await target.holds(batch))) throw notTheSame(batch.name);
      for (const [name, count] of counts) {
        // The hours of a day share a document.
        if (name !== "usageHours" && (await target.count(name)) !== count) throw notTheSame(name);
      }
      await target.finish();
      return Object.fromEntries(counts) as CopiedCounts;
    } finally {
      await target.close();
    }
  } finally {
    source.close();
  }
}

function notTheSame(name: CopiedName): StartRefused {
  return new StartRefused(
    `What MongoDB holds of the ${name} is not what was copied, so something else has written to the database. Make sure that nothing does, and run the command again: it begins anew.`,
  );
}
