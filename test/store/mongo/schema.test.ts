import { afterAll, expect, onTestFinished, test } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { type Collections, collectionsOf } from "#src/store/mongo/documents.ts";
import { prepareDatabase } from "#src/store/mongo/schema.ts";
import { schemaNumber } from "#src/store/schema-number.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";

describeWith(mongodbMissing)("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  async function emptyDatabase(): Promise<Collections> {
    const patient = { selectionMsMax: 20_000, socketMsMax: 20_000 };
    const { client, db } = await connectMongo(databases.createUri(), patient);
    onTestFinished(() => client.close());
    return collectionsOf(db);
  }

  test.each([
    { version: schemaNumber - 1, words: /before the first release of Keyrun.*Start with an empty/ },
    { version: schemaNumber + 1, words: /A newer Keyrun wrote this store.*Start the newer one again/ },
  ])("a database of schema $version is refused in words, and not changed", async ({ version, words }) => {
    const collections = await emptyDatabase();
    await collections.meta.insertOne({ _id: "schema", version });
    const prepared = prepareDatabase(collections);
    await expect(prepared).rejects.toBeInstanceOf(StartRefused);
    await expect(prepared).rejects.toThrow(words);
    expect(await collections.meta.find().toArray()).toEqual([{ _id: "schema", version }]);
    expect(await collections.keys.indexes().catch(() => [])).toEqual([]);
  });

  test("an index that was dropped is made again by the next start", async () => {
    const collections = await emptyDatabase();
    await prepareDatabase(collections);
    await collections.keys.dropIndex("slot_1");
    await prepareDatabase(collections);
    const indexes = await collections.keys.indexes();
    expect(indexes.find(({ name }) => name === "slot_1")?.unique).toBe(true);
    expect(await collections.meta.find().toArray()).toEqual([{ _id: "schema", version: schemaNumber }]);
  });
});
