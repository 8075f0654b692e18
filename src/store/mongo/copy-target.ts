import { isDeepStrictEqual } from "node:util";
import type { AnyBulkWriteOperation, Db } from "mongodb";
import type { z } from "zod";
import { bounds } from "../../bounds.ts";
import { type AloneParts, type InstanceGuard, serveAlone } from "../../fleet/alone.ts";
import type { KeyRecord } from "../../keys/key-store.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { type CopiedBatch, type CopiedName, checkRecord, copiedNames, copiedShapes } from "../records.ts";
import { connectMongo } from "./connection.ts";
import { createControlStore } from "./control-store.ts";
import { type Collections, collectionsOf, copyStates, type MetaDocument } from "./documents.ts";
import { activeSlot, endedSlot, keyDocumentOf, successorSlot } from "./key-documents.ts";
import { prepareDatabase, requireKnownSchema } from "./schema.ts";
import { serviceTokenDocumentOf } from "./service-token-store.ts";
import { createStoreCall, isDuplicate, type StoreCall, whileHolding } from "./store-call.ts";
import { memberIdOf } from "./team-store.ts";
import { dayDocumentOf, hourDocumentOf } from "./usage-store.ts";

/**
 * A database of MongoDB that takes a copy. It is locked meanwhile, as by an instance that serves it
 * alone, and from the first write until `finish` has resolved a mark in it keeps every Keyrun from
 * starting. What an earlier copy left that was cut off is removed. Throws StartRefused where the
 * server can't be reached, a Keyrun serves the database, or it holds anything else.
 */
export async function openMongoTarget(parts: AloneParts & { readonly uri: string }) {
  const { client, db } = await connectMongo(parts.uri, {
    selectionMsMax: bounds.storeStartMsMax,
    socketMsMax: bounds.storePrepareMsMax,
  });
  let guard: InstanceGuard | undefined;
  const close = async () => {
    await guard?.release();
    await client.close();
  };
  try {
    const collections = collectionsOf(db);
    await requireKnownSchema(collections);
    const call = createStoreCall(bounds.storeTimeoutMs);
    const control = createControlStore(collections, { call, readOptions: {} });
    guard = await serveAlone(control, parts);
    const guarded = whileHolding(guard, createStoreCall(bounds.storePrepareMsMax), lostDatabase);
    const copier = parts.newIncarnation();
    await takeEmpty(db, guarded, copier);
    await guarded(() => prepareDatabase(collections));
    return { ...targetOf(db, guarded, copier), close };
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

function targetOf(db: Db, call: StoreCall, copier: string) {
  const written = createDocuments();
  const expected = createDocuments();
  return {
    /** Adds the records, durable. To be called with the batches in their order. */
    async write(batch: CopiedBatch): Promise<void> {
      const operations = written(batch).map(batch.name === "usageHours" ? setting : inserting);
      await call(() => collectionOf(db, batch.name).bulkWrite(operations, { ordered: false }));
    },
    /** Whether the store holds these records as they were written. In the same order again. */
    async holds(batch: CopiedBatch): Promise<boolean> {
      const documents = expected(batch);
      const some = { _id: { $in: documents.map(({ _id }) => _id) } };
      const found = await call(() => collectionOf(db, batch.name).find(some).toArray());
      const byId = new Map(found.map((document) => [document._id, document]));
      return documents.every((document) => {
        const held = byId.get(document._id);
        const others = batch.name === "usageHours" ? held : {};
        return isDeepStrictEqual({ ...others, ...document }, held);
      });
    },
    count: (name: CopiedName): Promise<number> => call(() => collectionOf(db, name).countDocuments()),
    /** Leaves the store to the next start of Keyrun. */
    async finish(): Promise<void> {
      // The guard alone is not enough: this process may be frozen after the check of it, for as
      // long as another copier needs to begin anew.
      if (!(await call(() => endCopy(collectionsOf(db), copier)))) throw lostDatabase();
    },
  };
}

type Operation = AnyBulkWriteOperation<CopiedDocument>;

const inserting = (document: CopiedDocument): Operation => ({ insertOne: { document } });

/** The hours of a day share a document. */
const setting = ({ _id, ...fields }: CopiedDocument): Operation => ({
  updateOne: { filter: { _id }, update: { $set: fields }, upsert: true },
});

/** From here on, no Keyrun starts on the database until the copy is whole. */
async function takeEmpty(db: Db, call: StoreCall, copier: string): Promise<void> {
  const collections = collectionsOf(db);
  const seen = await call(() => collections.meta.findOne({ _id: { $eq: "copy" } }));
  const isCutOff = seen?.version === copyStates.underWay;
  const found: string[] = [];
  for (const name of isCutOff ? [] : ([...copiedNames, "sessions"] as const)) {
    if (await call(() => collectionOf(db, name).findOne({}, { projection: { _id: 1 } }))) found.push(name);
  }
  if (found.length > 0) {
    const words = seen
      ? "A copy into it was finished: start Keyrun on it."
      : "Name another one in KEYRUN_MONGODB_URI, or drop this one if you don't need it.";
    throw new StartRefused(
      `The MongoDB database ${db.databaseName} is not empty: it holds ${found.join(", ")}. Nothing was copied. ${words}`,
    );
  }
  if (!(await call(() => beginCopy(collections, { seen, copier })))) throw lostDatabase();
  if (!isCutOff) return;
  for (const name of copiedNames) await call(() => collectionOf(db, name).deleteMany({}));
}

/**
 * Marks the database as that of a copy of `copier` that is under way, on the condition that its
 * mark is still the one that was seen. False: another copier was faster, and nothing is changed.
 * Durable when the promise resolves.
 */
export async function beginCopy(
  { meta }: Pick<Collections, "meta">,
  { seen, copier }: { readonly seen: MetaDocument | null; readonly copier: string },
): Promise<boolean> {
  const asSeen = <T>(value: T | undefined) => (value === undefined ? absent : { $eq: value });
  const unchanged = { version: asSeen(seen?.version), copier: asSeen(seen?.copier) };
  const begun = { $set: { version: copyStates.underWay, copier } };
  try {
    await meta.updateOne({ _id: { $eq: "copy" }, ...unchanged }, begun, { upsert: true });
    return true;
  } catch (thrown) {
    if (isDuplicate(thrown)) return false;
    throw thrown;
  }
}

const absent = { $exists: false } as const;

/** Marks the copy as whole. False: another copier has begun anew, and nothing is changed. */
export async function endCopy({ meta }: Pick<Collections, "meta">, copier: string): Promise<boolean> {
  const own = { _id: { $eq: "copy" }, copier: { $eq: copier } };
  return (await meta.updateOne(own, { $set: { version: copyStates.whole } })).matchedCount === 1;
}

function lostDatabase(): StartRefused {
  return new StartRefused(
    "This command has lost its lock on the MongoDB database: another Keyrun or another copy took it, or this process stood still for too long. Make sure that nothing else uses the database, and run the command again.",
  );
}

/** Any document of a collection that takes a copy. */
interface CopiedDocument {
  readonly _id: string | number;
  readonly [field: string]: unknown;
}

function collectionOf(db: Db, name: CopiedName | "sessions") {
  return db.collection<CopiedDocument>(name);
}

/**
 * Makes the documents of records, as MongoDB's stores write them. To be called with the batches in
 * their order: a team's active keys are numbered as they come, so a second pass with a new function
 * makes the same documents.
 */
function createDocuments(): (batch: CopiedBatch) => CopiedDocument[] {
  const slots: Slots = { used: new Map(), byFirstKey: new Map(), tokens: 0 };
  return ({ name, records }) => records.map((record) => documentOf[name](record, slots));
}

interface Slots {
  /** How many numbers each team has used. */
  readonly used: Map<string, number>;
  /** The numbers of active keys by their first keys: a key and its successor share one. */
  readonly byFirstKey: Map<string, number>;
  /** How many numbers accepted service tokens have used. */
  tokens: number;
}

function slotOf({ id, teamId, revokeTimeMs, expiredTimeMs, firstKeyId }: KeyRecord, slots: Slots): string {
  if (revokeTimeMs !== null || expiredTimeMs !== null) return endedSlot(id);
  const shared = slots.byFirstKey.get(firstKeyId ?? id);
  if (shared !== undefined) return successorSlot(teamId, shared, id);
  const slot = slots.used.get(teamId) ?? 0;
  slots.used.set(teamId, slot + 1);
  slots.byFirstKey.set(firstKeyId ?? id, slot);
  return activeSlot(teamId, slot);
}

const withId = <Facts extends object>({ id, ...facts }: Facts & { readonly id: string }) => ({
  _id: id,
  ...facts,
});

const documentOf: Readonly<Record<CopiedName, (record: unknown, slots: Slots) => CopiedDocument>> = {
  teams: of(copiedShapes.teams, withId),
  members: of(copiedShapes.members, (member) => ({ _id: memberIdOf(member), ...member })),
  preview: of(copiedShapes.preview, ({ email }) => ({ _id: email, granted: true })),
  users: of(copiedShapes.users, ({ email, ...user }) => ({ _id: email, ...user })),
  apps: of(copiedShapes.apps, withId),
  keys: of(copiedShapes.keys, (key, slots) => ({ ...keyDocumentOf(key, slotOf(key, slots)) })),
  // Only the numbers of accepted tokens are taken, and count towards the bound.
  serviceTokens: of(copiedShapes.serviceTokens, (token, slots) => ({
    ...serviceTokenDocumentOf(token, token.revokeTimeMs === null ? slots.tokens++ : 0),
  })),
  runs: of(copiedShapes.runs, ({ id, ...run }) => ({
    _id: id,
    ...run,
    textExpireTimeMs: run.textBytes !== null && run.textBytes > 0 ? run.expireTimeMs : null,
  })),
  usageHours: of(copiedShapes.usageHours, (hour) => documentIn(hourDocumentOf(hour))),
  usageDays: of(copiedShapes.usageDays, (day) => documentIn(dayDocumentOf(day))),
  quotas: of(copiedShapes.quotas, withId),
  auditEvents: of(copiedShapes.auditEvents, withId),
};

function documentIn({ _id, place, counts }: ReturnType<typeof hourDocumentOf>): CopiedDocument {
  return { _id, ...place, ...counts };
}

function of<Copied>(
  shape: z.ZodType<Copied>,
  make: (record: Copied, slots: Slots) => CopiedDocument,
): (record: unknown, slots: Slots) => CopiedDocument {
  return (record, slots) => make(checkRecord(shape, record, "a copy"), slots);
}
