import { afterAll, beforeAll, expect, test } from "vitest";
import { connectMongo, type MongoConnection } from "#src/store/mongo/connection.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { createKeyStore } from "#src/store/mongo/key-store.ts";
import { prepareDatabase } from "#src/store/mongo/schema.ts";
import { createStoreCall } from "#src/store/mongo/store-call.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { keyRecordOf } from "../../harness/store-records.ts";

// The single-instance record would keep the second process out, but these guarantees must hold
// without it.
describeWith(mongodbMissing)("two processes that insert keys of one team at once", () => {
  const databases = createMongoDatabases();
  const connections: MongoConnection[] = [];
  const keyStores = () =>
    connections.map(({ db }) =>
      createKeyStore(collectionsOf(db), createStoreCall(20_000), (write) => write()),
    );

  beforeAll(async () => {
    const uri = databases.createUri();
    const patient = { selectionMsMax: 20_000, socketMsMax: 20_000 };
    connections.push(await connectMongo(uri, patient), await connectMongo(uri, patient));
    await prepareDatabase(collectionsOf(connections[0]!.db));
  });
  afterAll(async () => {
    for (const { client } of connections) await client.close();
    await databases.drop();
  });

  test("never make more active keys than the team may have", async () => {
    const outcomes = await Promise.all(
      keyStores().flatMap((keys, process) =>
        Array.from({ length: 20 }, (_, n) =>
          keys.insert(keyRecordOf({ id: `k${process}-${n}`, teamId: "demo" }), { activeMax: 15 }),
        ),
      ),
    );
    expect(outcomes.filter(({ kind }) => kind === "inserted")).toHaveLength(15);
    expect(await keyStores()[0]!.countActive("demo")).toBe(15);
  });

  test("use a request id once", async () => {
    const requestId = "11111111-2222-4333-8444-555555555555";
    const outcomes = await Promise.all(
      keyStores().map((keys, process) =>
        keys.insert(keyRecordOf({ id: `r${process}`, teamId: "other", requestId }), { activeMax: 15 }),
      ),
    );
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual(["inserted", "request_id_used"]);
  });
});
