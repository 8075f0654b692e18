import { setTimeout as sleep } from "node:timers/promises";
import { bounds } from "../../bounds.ts";
import type { StoreInspection } from "../stores.ts";
import { connectMongo, type MongoConnection, mongoRefusal, mongoTooSlow } from "./connection.ts";
import { createControlStore } from "./control-store.ts";
import { type Collections, collectionsOf } from "./documents.ts";
import { requireKnownSchema, requireWhole } from "./migrations.ts";

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
  await requireWhole(collections);
  await tryWrites(collections);
  const hello = await db.command({ hello: 1 });
  const server = typeof hello.setName === "string" ? `replica set ${hello.setName}` : "no replica set";
  const schema =
    version < newest ? `schema ${version}, which a start brings to ${newest}` : `schema ${version}`;
  const [alone, fleet] = await Promise.all([lookForOneAlone(collections), lookForFleet(collections)]);
  const fleetId = (await collections.meta.findOne({ _id: { $eq: "fleet" } }))?.fleetId;
  // Read last: an instance that made a key and left meanwhile is not in what was seen above.
  const { keys, serviceTokens } = collections;
  const ofKeys: string[] = await keys.distinct("secretVersion");
  const ofTokens: string[] = await serviceTokens.distinct("secretVersion", { revokeTimeMs: { $eq: null } });
  const secretVersions = [...new Set([...ofKeys, ...ofTokens])];
  return {
    words: `database ${db.databaseName}, ${schema}, ${server}`,
    ...{ ...alone, ...fleet, secretVersions, newestSchema: newest },
    ...(fleetId !== undefined && { fleetId }),
  };
}

/** An id that no document has. */
const nobody = { _id: { $eq: "no such document" } };

async function tryWrites({ meta, instances, control }: Collections): Promise<void> {
  await meta.updateOne(nobody, { $set: { version: 1 } }, { upsert: false });
  await instances.deleteOne(nobody);
  await control.updateOne(nobody, { $set: { joined: 1 } }, { upsert: false });
}

/** Whether an instance renews its record. One that was killed left a record that stays as it is. */
async function lookForOneAlone({
  instances,
}: Collections): Promise<Pick<StoreInspection, "isServed" | "isHeld">> {
  const only = { _id: { $eq: "only" } };
  const first = await instances.findOne(only);
  if (!first) return { isServed: false, isHeld: false };
  for (let waitedMs = 0; waitedMs < bounds.servedLookMs; waitedMs += pauseMs) {
    await sleep(pauseMs);
    const next = await instances.findOne(only);
    if (!next) return { isServed: false, isHeld: false };
    if (next.incarnation !== first.incarnation || next.beat !== first.beat) {
      return { isServed: true, isHeld: true };
    }
  }
  return { isServed: false, isHeld: true };
}

/** The instances of a fleet whose records changed while they were looked at live. */
async function lookForFleet(
  collections: Collections,
): Promise<Pick<StoreInspection, "instances" | "registered">> {
  const { read } = createControlStore(collections, { call: (work) => work(), freshRead: {} });
  const first = new Map((await read()).leases.map(({ id, n }) => [id, n]));
  if (first.size === 0) return { instances: [], registered: [] };
  const seen = new Map([...first].map(([id, n]) => [id, { n, silentMs: 0 }]));
  for (let waitedMs = 0; ; waitedMs += pauseMs) {
    await sleep(pauseMs);
    const registered = (await read()).leases.map((lease) => {
      const before = seen.get(lease.id);
      const silentMs = before?.n === lease.n ? before.silentMs + pauseMs : 0;
      seen.set(lease.id, { n: lease.n, silentMs });
      return { ...lease, silentMs };
    });
    const instances = registered.filter(({ id, n, state }) => state === "live" && n !== first.get(id));
    if (instances.length === registered.length || waitedMs >= bounds.servedLookMs) {
      return { instances, registered };
    }
  }
}

const pauseMs = 250;
