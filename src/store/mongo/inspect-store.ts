import { setTimeout as sleep } from "node:timers/promises";
import { bounds } from "../../bounds.ts";
import type { LeaseRecord } from "../../fleet/control-store.ts";
import type { StoreInspection } from "../stores.ts";
import { connectMongo, type MongoConnection, mongoRefusal, mongoTooSlow } from "./connection.ts";
import { createControlStore } from "./control-store.ts";
import { type Collections, collectionsOf } from "./documents.ts";
import { requireKnownSchema, requireWhole } from "./schema.ts";

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
  const found = await requireKnownSchema(collections);
  await requireWhole(collections);
  await tryWrites(collections);
  const hello = await db.command({ hello: 1 });
  const isCluster = hello.msg === "isdbgrid";
  const isSet = typeof hello.setName === "string";
  const server = isSet ? `replica set ${hello.setName}` : isCluster ? "sharded cluster" : "no replica set";
  const schema = found === 0 ? "empty" : `schema ${found}`;
  const seen = await lookForInstances(collections);
  const fleetId = (await collections.meta.findOne({ _id: { $eq: "fleet" } }))?.fleetId;
  // Read last: an instance that made a key and left meanwhile is not in what was seen above.
  const { keys, serviceTokens } = collections;
  const ofKeys: string[] = await keys.distinct("secretVersion");
  const ofTokens: string[] = await serviceTokens.distinct("secretVersion", { revokeTimeMs: { $eq: null } });
  const secretVersions = [...new Set([...ofKeys, ...ofTokens])];
  return {
    words: `database ${db.databaseName}, ${schema}, ${server}`,
    ...seen,
    secretVersions,
    ...(!isSet && !isCluster && { warning: noReplicaSet }),
    ...(fleetId !== undefined && { fleetId }),
  };
}

const noReplicaSet =
  "what it has confirmed may be lost with the server, such as a revocation: start mongod with --replSet; one member is enough";

/** An id that no document has. */
const nobody = { _id: { $eq: "no such document" } };

async function tryWrites({ meta, instances, control }: Collections): Promise<void> {
  await meta.updateOne(nobody, { $set: { version: 1 } }, { upsert: false });
  await instances.deleteOne(nobody);
  await control.updateOne(nobody, { $set: { joined: 1 } }, { upsert: false });
}

/** Those whose records changed while they were read are live. One alone is in no fleet. */
async function lookForInstances(
  collections: Collections,
): Promise<Pick<StoreInspection, "isServed" | "isLocked" | "instances" | "registered">> {
  const looking = { call: <T>(work: () => Promise<T>) => work(), readOptions: {} };
  const { read } = createControlStore(collections, looking);
  const first = new Map((await read()).leases.map(({ id, n }) => [id, n]));
  const seen = new Map([...first].map(([id, n]) => [id, { n, silentMs: 0 }]));
  const inFleet = ({ facts }: LeaseRecord) => !facts.alone;
  for (let waitedMs = 0; first.size > 0; waitedMs += pauseMs) {
    await sleep(pauseMs);
    const present = (await read()).leases.map((lease) => {
      const before = seen.get(lease.id);
      const silentMs = before?.n === lease.n ? before.silentMs + pauseMs : 0;
      seen.set(lease.id, { n: lease.n, silentMs });
      return { ...lease, silentMs };
    });
    const living = present.filter(({ id, n }) => n !== first.get(id));
    if (living.length < present.length && waitedMs < bounds.servedCheckMs) continue;
    return {
      isServed: !living.every(inFleet),
      isLocked: !present.every(inFleet),
      instances: living.filter(inFleet),
      registered: present.filter(inFleet),
    };
  }
  return { isServed: false, isLocked: false, instances: [], registered: [] };
}

const pauseMs = 250;
