import { isDeepStrictEqual } from "node:util";
import type { Db } from "mongodb";
import { bounds } from "../../bounds.ts";
import type { InstanceGuard } from "../../fleet/instance-guard.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import type { UsageStore } from "../../usage/usage-store.ts";
import { type CopiedName, copiedNames } from "../copied-records.ts";
import type { CopyTarget } from "../copy-store.ts";
import { connectMongo } from "./connection.ts";
import { type CopiedDocument, createCopiedDocuments } from "./copied-documents.ts";
import { beginCopy, endCopy, findCopyMark } from "./copy-mark.ts";
import { collectionsOf } from "./documents.ts";
import { migrate, requireKnownSchema } from "./migrations.ts";
import { type AloneParts, serveAlone } from "./serve-alone.ts";
import { createStoreCall, type StoreCall, whileHolding } from "./store-call.ts";
import { createUsageStore } from "./usage-store.ts";

/**
 * A database of MongoDB that takes a copy. It is held meanwhile, as by an instance that serves it
 * alone. What an earlier copy left that was cut off is removed. Throws StartRefused where the
 * server can't be reached, a Keyrun serves the database, or it holds anything else.
 */
export async function openMongoTarget(parts: AloneParts & { readonly uri: string }): Promise<CopyTarget> {
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
    guard = await serveAlone(parts, { collections, call, freshRead: {} });
    const guarded = whileHolding(guard, createStoreCall(bounds.storePrepareMsMax), lostDatabase);
    const copier = parts.newIncarnation();
    await takeEmpty(db, { call: guarded, copier });
    await guarded(() => migrate(collections));
    return targetOf(db, { call: guarded, copier, close });
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

interface Taking {
  readonly call: StoreCall;
  /** Tells this copy from every other one. */
  readonly copier: string;
}

function targetOf(db: Db, { call, copier, close }: Taking & { close: () => Promise<void> }): CopyTarget {
  const written = createCopiedDocuments();
  const expected = createCopiedDocuments();
  return {
    async write(batch) {
      const operations = written(batch).map((document) => ({ insertOne: { document } }));
      await call(() => collectionOf(db, batch.name).bulkWrite(operations, { ordered: false }));
    },
    async holds(batch) {
      const documents = expected(batch);
      const ids = documents.map(({ _id }) => _id);
      const found = await call(() =>
        collectionOf(db, batch.name)
          .find({ _id: { $in: ids } })
          .toArray(),
      );
      const byId = new Map(found.map((document) => [document._id, document]));
      return documents.every((document) => isDeepStrictEqual(byId.get(document._id), document));
    },
    count: (name) => call(() => collectionOf(db, name).countDocuments()),
    async finish() {
      await packDays(createUsageStore(collectionsOf(db), call));
      // The guard alone is not enough: this process may be frozen after the check of it, for as
      // long as another copier needs to begin anew.
      if (!(await call(() => endCopy(collectionsOf(db), copier)))) throw lostDatabase();
    },
    close,
  };
}

/**
 * Packs the hours of the days that were set: in a copy, each hour of a process has a document of
 * its own, and a month of a team would be slow to read for as long.
 */
async function packDays(usage: UsageStore): Promise<void> {
  let teamId = await usage.teamAfter("");
  while (teamId !== undefined) {
    const newestMs = (await usage.newestDay(teamId)) ?? Number.NEGATIVE_INFINITY;
    for (const startMs of await usage.daysWithHours(teamId)) {
      if (startMs <= newestMs) await usage.setDay(teamId, startMs);
    }
    teamId = await usage.teamAfter(teamId);
  }
}

/** From here on, no Keyrun starts on the database until the copy is whole. */
async function takeEmpty(db: Db, { call, copier }: Taking): Promise<void> {
  const seen = await call(() => findCopyMark(collectionsOf(db)));
  const begin = async () => {
    if (!(await call(() => beginCopy(collectionsOf(db), { seen, copier })))) throw lostDatabase();
  };
  if (seen?.state === "under way") {
    await begin();
    for (const name of copiedNames) await call(() => collectionOf(db, name).deleteMany({}));
    return;
  }
  const found: string[] = [];
  for (const name of [...copiedNames, "sessions"] as const) {
    if (await call(() => collectionOf(db, name).findOne({}, { projection: { _id: 1 } }))) found.push(name);
  }
  if (found.length > 0) {
    const words =
      seen?.state === "whole"
        ? "A copy into it was finished: start Keyrun on it."
        : "Name another one in KEYRUN_MONGODB_URI, or drop this one if you don't need it.";
    throw new StartRefused(
      `The MongoDB database ${db.databaseName} is not empty: it holds ${found.join(", ")}. Nothing was copied. ${words}`,
    );
  }
  await begin();
}

function lostDatabase(): StartRefused {
  return new StartRefused(
    "This command no longer held the MongoDB database: another Keyrun or another copy took it, or this process stood still for too long. Make sure that nothing else uses the database, and run the command again.",
  );
}

function collectionOf(db: Db, name: CopiedName | "sessions") {
  return db.collection<CopiedDocument>(name);
}
