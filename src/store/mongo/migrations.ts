import { searchForm } from "../../base/fields.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import type { ReadConcernOptions } from "./connection.ts";
import { type Collections, copyStates } from "./documents.ts";
import { repeatOnDuplicate } from "./store-call.ts";

/** Changes the documents of one schema into those of the next. */
export type MigrationStep = (collections: Collections) => Promise<void>;

/**
 * Brings the database up to date, one numbered step after the other, and makes the indexes that are
 * missing. Several instances may do it at once, while others serve. Returns the number of the
 * newest schema. Throws StartRefused for a database that a newer Keyrun wrote.
 */
export async function migrate(
  collections: Collections,
  steps: readonly MigrationStep[] = migrations,
): Promise<number> {
  const { meta } = collections;
  const { version } = await requireKnownSchema(collections, steps);
  for (const [index, step] of steps.entries()) {
    if (index < version) continue;
    await step(collections);
    // Never set back: another instance may be further, and its documents are not for older Keyruns.
    const number = { $max: { version: index + 1 } };
    const raise = () => meta.updateOne({ _id: { $eq: "schema" } }, number, { upsert: true });
    await repeatOnDuplicate(raise);
  }
  await ensureIndexes(collections);
  return steps.length;
}

/**
 * The number of the database's schema, and the newest that this Keyrun knows. Throws StartRefused
 * for a database that a newer Keyrun wrote.
 */
export async function requireKnownSchema(
  { meta }: Pick<Collections, "meta">,
  steps: readonly MigrationStep[] = migrations,
) {
  const version = (await meta.findOne({ _id: { $eq: "schema" } }))?.version ?? 0;
  if (version <= steps.length) return { version, newest: steps.length };
  throw new StartRefused(
    `A newer Keyrun wrote this database: its schema has number ${version}, and this Keyrun knows ${steps.length}. Start the newer one again, or restore a copy from before the upgrade.`,
  );
}

/** Throws StartRefused for a database with a part of a copy of a data folder. */
export async function requireWhole(
  { meta }: Pick<Collections, "meta">,
  readOptions: ReadConcernOptions = {},
): Promise<void> {
  const mark = await meta.findOne({ _id: { $eq: "copy" } }, readOptions);
  if (mark?.version !== copyStates.underWay) return;
  throw new StartRefused(
    `A copy of a data folder into this MongoDB database was cut off. Run the command \`copy-to-mongodb\` once more: it begins anew.`,
  );
}

/** From this schema on, a Keyrun reads the hours that were moved into `usageDayHours`. */
export const movedHoursSchema = 12;

/**
 * Step n brings schema n − 1 to n. A start that was killed repeats the step that it was in, and two
 * that start together both do it, so a step must be safe to repeat. It only adds: in a fleet,
 * instances that know no more than schema n − 1 still read and write. Never change a step that was
 * released: add another.
 */
const migrations: readonly MigrationStep[] = [
  // The first schema. MongoDB makes a collection with its first document, and no older data exists.
  async () => {},
  // Sessions, and the owners of e-mails; their collections too come with the first document.
  async () => {},
  foldLabels,
  // Teams can be deleted.
  async ({ teams }) => {
    const stateless = { state: { $exists: false } };
    await teams.updateMany(stateless, { $set: { state: "active", deleted: false } });
  },
  // Apps stream: ten minutes.
  async ({ apps }) => {
    await apps.updateMany({ streamTimeoutMs: { $exists: false } }, { $set: { streamTimeoutMs: 600_000 } });
  },
  // Records of runs; their collection comes with the first document.
  async () => {},
  // Several instances may serve. A Keyrun that would not tell them of its changes is refused.
  async () => {},
  // Keys expire, are replaced, and may be restricted. A key that has none of it lacks the fields.
  async () => {},
  // How keys are used; the collections come with the first document.
  async () => {},
  // Tokens of internal services; their collection comes with the first document.
  async () => {},
  // The audit log; its collection comes with the first document.
  async () => {},
  // The hours of a day that is over are moved into a document for each key, once all instances that
  // serve read them there.
  async () => {},
  // Apps have longer times, and one for runs in the background, which older apps lack.
  async () => {},
  // Runs in the background; their collection comes with the first document.
  async () => {},
];

/** Keys can be searched by their label in any case. */
async function foldLabels({ keys }: Collections): Promise<void> {
  // In the order of ids, so that a round need not read again what the rounds before have read.
  for (let after = ""; ; ) {
    const unfolded = { _id: { $gt: after }, labelFolded: { $exists: false } };
    const found = await keys
      .find(unfolded)
      .sort({ _id: 1 })
      .limit(foldedAtOnce)
      .project<{ _id: string; label: string }>({ label: 1 })
      .toArray();
    const last = found.at(-1);
    if (last === undefined) return;
    after = last._id;
    const updates = found.map(({ _id, label }) => ({
      updateOne: {
        filter: { _id: { $eq: _id } },
        update: { $set: { labelFolded: searchForm(String(label)) } },
        upsert: false,
      },
    }));
    await keys.bulkWrite(updates, { ordered: false });
  }
}

const foldedAtOnce = 1_000;

/**
 * Makes plain and unique indexes only. It runs at every start, since the limit of active keys is
 * only as good as its index.
 */
async function ensureIndexes(collections: Collections): Promise<void> {
  const { keys, serviceTokens, members, sessions, runRecords, backgroundRuns, auditEvents } = collections;
  const { usageHours, usageDays, usageDayHours } = collections;
  await keys.createIndex({ slot: 1 }, { unique: true });
  await keys.createIndex({ requestKey: 1 }, { unique: true });
  await keys.createIndex({ teamId: 1, createTimeMs: -1, _id: -1 });
  await keys.createIndex({ teamId: 1, revokeTimeMs: 1, expiredTimeMs: 1, createTimeMs: -1, _id: -1 });
  await keys.createIndex({ revokeTimeMs: 1, expiredTimeMs: 1, expireTimeMs: 1 });
  await keys.createIndex({ pendingSinceMs: 1 });
  await keys.createIndex({ secretVersion: 1 });
  await serviceTokens.createIndex({ slot: 1 }, { unique: true });
  await serviceTokens.createIndex({ nameKey: 1 }, { unique: true });
  await serviceTokens.createIndex({ createTimeMs: -1, _id: -1 });
  await members.createIndex({ teamId: 1, email: 1 }, { unique: true });
  await members.createIndex({ email: 1, teamId: 1 });
  await sessions.createIndex({ issuer: 1, subject: 1, createTimeMs: -1, _id: -1 });
  await sessions.createIndex({ expireTimeMs: 1 });
  await sessions.createIndex({ lastActiveTimeMs: 1 });
  // The bytes are in it so that a team's totals are counted without its records.
  await runRecords.createIndex({ teamId: 1, createTimeMs: 1, textBytes: 1 });
  await runRecords.createIndex({ teamId: 1, textExpireTimeMs: 1 });
  await runRecords.createIndex({ expireTimeMs: 1 });
  await backgroundRuns.createIndex({ teamId: 1, createTimeMs: -1, _id: -1 });
  await backgroundRuns.createIndex({ teamId: 1, textExpireTimeMs: 1 });
  await backgroundRuns.createIndex({ state: 1, owner: 1 });
  await backgroundRuns.createIndex({ expireTimeMs: 1 });
  // The writes are in it since a Keyrun of schema 11, which sums them.
  await usageHours.createIndex({ teamId: 1, dayMs: 1, keyId: 1, writes: 1 });
  await usageDays.createIndex({ teamId: 1, startTimeMs: 1, keyId: 1 });
  await usageDayHours.createIndex({ teamId: 1, dayMs: 1, keyId: 1 });
  const filters = [{}, { teamId: 1 }, { actor: 1 }, { action: 1 }] as const;
  const ofTeam = [
    { teamId: 1, actor: 1 },
    { teamId: 1, action: 1 },
  ] as const;
  for (const filter of [...filters, ...ofTeam]) {
    await auditEvents.createIndex({ ...filter, timeMs: -1, _id: -1 });
  }
}
