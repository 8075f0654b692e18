import { StartRefused } from "../../error.ts";
import type { Collections } from "./documents.ts";

export type MigrationStep = (collections: Collections) => Promise<void>;

/**
 * Brings the database up to date, one numbered step after the other, and makes the indexes that are missing. The
 * caller holds the database alone. Throws StartRefused for one that a newer Keyrun wrote.
 */
export async function migrate(
  collections: Collections,
  steps: readonly MigrationStep[] = migrations,
): Promise<void> {
  const { meta } = collections;
  const version = (await meta.findOne({ _id: { $eq: "schema" } }))?.version ?? 0;
  if (version > steps.length) {
    throw new StartRefused(
      `A newer Keyrun wrote this database: its schema has number ${version}, and this Keyrun knows ${steps.length}. Start the newer one again, or restore a copy from before the upgrade.`,
    );
  }
  for (const [index, step] of steps.entries()) {
    if (index < version) continue;
    await step(collections);
    const number = { $set: { version: index + 1 } };
    await meta.updateOne({ _id: { $eq: "schema" } }, number, { upsert: true });
  }
  await ensureIndexes(collections);
}

/**
 * Step n brings schema n − 1 to n. A start that was killed repeats the step that it was in, so each must bear
 * that. A step that was released is never changed: add another.
 */
const migrations: readonly MigrationStep[] = [
  // The first schema: collections come with their first document, and nothing older has to be changed.
  async () => {},
  // Sessions and whose e-mails are whose, which come with their first document too.
  async () => {},
];

/** Plain and unique indexes only. At every start, since the limit of active keys is only as good as its index. */
async function ensureIndexes({ keys, members, sessions }: Collections): Promise<void> {
  await keys.createIndex({ slot: 1 }, { unique: true });
  await keys.createIndex({ requestKey: 1 }, { unique: true });
  await keys.createIndex({ teamId: 1, createTimeMs: -1, _id: -1 });
  await keys.createIndex({ secretVersion: 1 });
  await members.createIndex({ teamId: 1, email: 1 }, { unique: true });
  await members.createIndex({ email: 1, teamId: 1 });
  await sessions.createIndex({ issuer: 1, subject: 1, createTimeMs: -1, _id: -1 });
  await sessions.createIndex({ expireTimeMs: 1 });
  await sessions.createIndex({ lastActiveTimeMs: 1 });
}
