import { afterAll, onTestFinished } from "vitest";
import { connectMongo, readConcernOf } from "#src/store/mongo/connection.ts";
import { createControlStore } from "#src/store/mongo/control-store.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { createLockRecords } from "#src/store/mongo/lock.ts";
import { createStoreCall } from "#src/store/mongo/store-call.ts";
import type { Stores } from "#src/store/stores.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";
import { controlStoreContract } from "./control-store.ts";
import { everyPortContract } from "./every-port.ts";
import { lockRecordsContract } from "./lock-records.ts";

describeWith(mongodbMissing)("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  const uriOf = new WeakMap<Stores, string>();

  async function open(uri = databases.createUri()): Promise<Stores> {
    const stores = await openMongoForTest({ uri });
    uriOf.set(stores, uri);
    return stores;
  }

  const name = "MongoDB";
  lockRecordsContract(name, async () => {
    const { client, db } = await connectMongo(databases.createUri(), {
      selectionMsMax: 20_000,
      socketMsMax: 20_000,
    });
    onTestFinished(() => client.close());
    return createLockRecords(collectionsOf(db), "a", { call: createStoreCall(20_000), readOptions: {} });
  });
  controlStoreContract(name, async (processes) => {
    const uri = databases.createUri();
    const openOne = async () => {
      const { client, db } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
      onTestFinished(() => client.close());
      return createControlStore(collectionsOf(db), {
        call: createStoreCall(20_000),
        readOptions: await readConcernOf(db, { callMsMax: 20_000 }),
      });
    };
    const stores = [await openOne()] as const;
    return [...stores, ...(await Promise.all(Array.from({ length: processes - 1 }, openOne)))];
  });
  everyPortContract(
    name,
    () => open(),
    (closed) => open(uriOf.get(closed)),
  );
});
