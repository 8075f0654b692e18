import { StartRefused } from "../../refusal/start-refused.ts";
import { requireSchemaNumber, schemaNumber } from "../schema-number.ts";
import type { ReadConcernOptions } from "./connection.ts";
import { type Collections, copyStates } from "./documents.ts";
import { repeatOnDuplicate } from "./store-call.ts";

/**
 * Gives an empty database its schema, and makes the indexes that are missing. Several instances may
 * do it at once, while others serve. Throws StartRefused for a database of another schema.
 */
export async function prepareDatabase(collections: Collections): Promise<void> {
  await requireKnownSchema(collections);
  const number = { $setOnInsert: { version: schemaNumber } };
  const begin = () => collections.meta.updateOne({ _id: { $eq: "schema" } }, number, { upsert: true });
  await repeatOnDuplicate(begin);
  await ensureIndexes(collections);
}

/**
 * The number of the database's schema; 0 of an empty one. Throws StartRefused for another one than
 * that of this Keyrun.
 */
export async function requireKnownSchema({ meta }: Pick<Collections, "meta">): Promise<number> {
  const found = (await meta.findOne({ _id: { $eq: "schema" } }))?.version ?? 0;
  requireSchemaNumber(found);
  return found;
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

/**
 * Makes plain and unique indexes only. It runs at every start, since the limit of active keys is
 * only as good as its index.
 */
async function ensureIndexes(collections: Collections): Promise<void> {
  const { keys, serviceTokens, members, sessions, runs, auditEvents } = collections;
  const { usageHours, usageDays, quotas } = collections;
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
  // A run with an Idempotency-Key is claimed by it.
  await runs.createIndex({ keyHash: 1 }, { unique: true });
  // The bytes are in it so that a team's totals are counted without its records.
  await runs.createIndex({ teamId: 1, createTimeMs: 1, textBytes: 1 });
  await runs.createIndex({ teamId: 1, listed: 1, createTimeMs: -1, _id: -1 });
  await runs.createIndex({ teamId: 1, textExpireTimeMs: 1 });
  await runs.createIndex({ state: 1, owner: 1 });
  await runs.createIndex({ expireTimeMs: 1 });
  await usageHours.createIndex({ teamId: 1, dayMs: 1, keyId: 1 });
  await usageDays.createIndex({ teamId: 1, startTimeMs: 1, keyId: 1 });
  await quotas.createIndex({ teamId: 1 });
  await quotas.createIndex({ startTimeMs: 1 });
  const filters = [{}, { teamId: 1 }, { actor: 1 }, { action: 1 }] as const;
  const ofTeam = [
    { teamId: 1, actor: 1 },
    { teamId: 1, action: 1 },
  ] as const;
  for (const filter of [...filters, ...ofTeam]) {
    await auditEvents.createIndex({ ...filter, timeMs: -1, _id: -1 });
  }
}
