import { setTimeout as sleep } from "node:timers/promises";
import { bounds } from "../../bounds.ts";
import type { StoreInspection } from "../store-inspection.ts";
import { connectMongo, type MongoConnection, mongoRefusal, mongoTooSlow } from "./connection.ts";
import { type Collections, collectionsOf } from "./documents.ts";
import { requireKnownSchema } from "./migrations.ts";

/**
 * `inspectStore` for MongoDB. Asks for every right that a server needs all the time: its writes fit
 * no document.
 */
export async function inspectMongoStore(parts: {
  readonly uri: string;
  readonly msMax: number;
}): Promise<StoreInspection> {
  const { uri, msMax } = parts;
  const connection = await connectMongo(uri, { selectionMsMax: msMax, socketMsMax: msMax });
  try {
    return await within(msMax, inspect(connection), () => mongoTooSlow(connection.client));
  } catch (thrown) {
    throw mongoRefusal(connection.client, thrown);
  } finally {
    await connection.client.close();
  }
}

async function within<T>(msMax: number, work: Promise<T>, tooSlow: () => Error): Promise<T> {
  const over = new AbortController();
  const late = sleep(msMax, undefined, { ref: false, signal: over.signal }).then(() => {
    throw tooSlow();
  });
  late.catch(() => {});
  try {
    return await Promise.race([work, late]);
  } finally {
    over.abort();
  }
}

async function inspect({ db }: MongoConnection): Promise<StoreInspection> {
  const collections = collectionsOf(db);
  const { version, newest } = await requireKnownSchema(collections);
  const secretVersions: string[] = await collections.keys.distinct("secretVersion");
  await tryWrites(collections);
  const hello = await db.command({ hello: 1 });
  const server = typeof hello.setName === "string" ? `replica set ${hello.setName}` : "no replica set";
  const schema =
    version < newest ? `schema ${version}, which a start brings to ${newest}` : `schema ${version}`;
  return {
    words: `database ${db.databaseName}, ${schema}, ${server}`,
    isServed: await isServed(collections),
    secretVersions,
  };
}

/** An id that no document has. */
const nobody = { _id: { $eq: "no such document" } };

async function tryWrites({ meta, instances }: Collections): Promise<void> {
  await meta.updateOne(nobody, { $set: { version: 1 } }, { upsert: false });
  await instances.deleteOne(nobody);
}

/** Whether an instance renews its record. One that was killed left a record that stays as it is. */
async function isServed({ instances }: Collections): Promise<boolean> {
  const only = { _id: { $eq: "only" } };
  const first = await instances.findOne(only);
  if (!first) return false;
  for (let waitedMs = 0; waitedMs < 2 * bounds.instanceRenewMs; waitedMs += pauseMs) {
    await sleep(pauseMs);
    const next = await instances.findOne(only);
    if (next?.incarnation !== first.incarnation || next.beat !== first.beat) return next !== null;
  }
  return false;
}

const pauseMs = 250;
