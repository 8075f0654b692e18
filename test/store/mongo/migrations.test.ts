import { afterAll, expect, onTestFinished, test } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { type Collections, collectionsOf } from "#src/store/mongo/documents.ts";
import { migrate } from "#src/store/mongo/migrations.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { openMongoForTest } from "../../harness/open-mongo.ts";
import { auditEventOf, keyRecordOf, newAppOf, teamRecordOf } from "../../harness/store-records.ts";

describeWith(mongodbMissing)("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  async function emptyDatabase(): Promise<Collections> {
    const patient = { selectionMsMax: 20_000, socketMsMax: 20_000 };
    const { client, db } = await connectMongo(databases.createUri(), patient);
    onTestFinished(() => client.close());
    return collectionsOf(db);
  }

  test("each step runs once, in order, also where the database is some steps behind", async () => {
    const collections = await emptyDatabase();
    const ran: number[] = [];
    const steps = [1, 2, 3].map((number) => async () => void ran.push(number));
    await migrate(collections, steps.slice(0, 1));
    await migrate(collections, steps);
    await migrate(collections, steps);
    expect(ran).toEqual([1, 2, 3]);
    expect(await collections.meta.find().toArray()).toEqual([{ _id: "schema", version: 3 }]);
  });

  test("of two instances that do the steps at once, the slower one never sets the number back", async () => {
    const collections = await emptyDatabase();
    const reached = Promise.withResolvers<void>();
    const finished = Promise.withResolvers<void>();
    const step = async () => {};
    const slow = async () => {
      reached.resolve();
      await finished.promise;
    };
    const last = async () => {
      throw new Error("killed");
    };
    const slower = migrate(collections, [slow, last]);
    await reached.promise;
    await migrate(collections, [step, step]);
    finished.resolve();
    await expect(slower).rejects.toThrow("killed");
    expect(await collections.meta.find().toArray()).toEqual([{ _id: "schema", version: 2 }]);
  });

  test("a step that fails runs again at the next start, and the steps before it don't", async () => {
    const collections = await emptyDatabase();
    const ran: number[] = [];
    const first = async () => void ran.push(1);
    const failing = async () => {
      throw new Error("of step 2");
    };
    await expect(migrate(collections, [first, failing])).rejects.toThrow("of step 2");
    await migrate(collections, [first, async () => void ran.push(2)]);
    expect(ran).toEqual([1, 2]);
  });

  test("a database of a newer schema is refused, and no step runs", async () => {
    const collections = await emptyDatabase();
    const step = async () => {};
    await migrate(collections, [step, step]);
    await expect(migrate(collections, [step])).rejects.toThrow(StartRefused);
  });

  test("an index that was dropped is made again by the next start", async () => {
    const collections = await emptyDatabase();
    await migrate(collections);
    await collections.keys.dropIndex("slot_1");
    await migrate(collections);
    const indexes = await collections.keys.indexes();
    expect(indexes.find(({ name }) => name === "slot_1")?.unique).toBe(true);
  });

  test("what the schemas before held can be read, searched, created beside and deleted", async () => {
    const uri = databases.createUri();
    const made = await openMongoForTest({ uri });
    const key = keyRecordOf({ id: "k", teamId: "demo", label: "CI-Dépôt" });
    await made.keys.insert(key, { activeMax: 5 });
    await made.teams.insert(teamRecordOf({ id: "demo" }));
    const app = newAppOf({ id: "echo", streamTimeoutMs: 5, backgroundTimeoutMs: 6 });
    await made.apps.insert(app);
    const event = auditEventOf({ id: "e", detail: "plan=pro" });
    await made.audit.write([event]);
    await made.close();
    const { client, db } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
    await db.collection("keys").updateMany({}, { $unset: { labelFolded: "" } });
    await db.collection("apps").updateMany({}, { $unset: { streamTimeoutMs: "", backgroundTimeoutMs: "" } });
    await db.collection("teams").updateMany({}, { $unset: { state: "", deleted: "" } });
    await collectionsOf(db).auditEvents.updateMany({}, { $unset: { detail: "" } });
    await collectionsOf(db).meta.updateOne({ _id: "schema" }, { $set: { version: 2 } });
    await client.close();

    const stores = await openMongoForTest({ uri });
    const match = { labelPart: "dépôt" };
    const found = await stores.keys.list({ teamId: "demo", limit: 5, includeRevoked: true, match });
    expect(found).toEqual([key]);
    const times = { streamTimeoutMs: 600_000, backgroundTimeoutMs: 600_000 };
    expect(await stores.apps.find("echo")).toEqual({ ...app, ...times, version: 1 });
    expect(await stores.teams.find("demo")).toEqual(teamRecordOf({ id: "demo" }));
    expect(await stores.audit.list({ limit: 5 })).toEqual([{ ...event, detail: "" }]);
    await stores.teams.update("demo", { state: "ending" });
    expect(await stores.teams.delete("demo", 2)).toBe(3);
    await stores.close();
  });
});
