import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { MongoClient } from "mongodb";
import { afterAll, expect, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { copyDataFolder } from "#src/store/copy-data-folder.ts";
import { beginCopy, endCopy, openMongoTarget } from "#src/store/mongo/copy-target.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { copiedNames } from "#src/store/records.ts";
import { openSqliteSource } from "#src/store/sqlite/copy-source.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { everyKind, families, writeEveryKind } from "../harness/copied-stores.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { openMongoForTest, silentInstanceEvents, steadyInstanceTimes } from "../harness/open-mongo.ts";
import { keyRecordOf } from "../harness/store-records.ts";

const folders = tempFolders();

/** Past one batch, with texts of kept answers. */
const sizes = { keys: 1_100, runs: 20 };

function copy(dataDir: string, uri: string) {
  const parts = { clock: systemClock, events: silentInstanceEvents, allow: async () => {} };
  return copyDataFolder({ dataDir, mongodbUri: uri }, parts);
}

async function filledFolder(counts = sizes): Promise<string> {
  const dataDir = folders.create();
  const stores = await openSqliteStores({ dataDir });
  await writeEveryKind(stores, counts);
  await stores.close();
  return dataDir;
}

describeWith(mongodbMissing)("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  test("a copy answers every question as the data folder does, and the folder is as it was", async () => {
    const dataDir = await filledFolder();
    const uri = databases.createUri();
    const counts = await copy(dataDir, uri);
    expect(counts).toMatchObject({ teams: 3, members: 3, preview: 1, users: 3, apps: 3, keys: 1_106 });

    const source = await openSqliteStores({ dataDir });
    const expected = await everyKind(source, sizes);
    expect(expected.teams[0]).toMatchObject({ active: 275, totals: { records: 10 } });
    expect(expected.deletedApps).toEqual([undefined, undefined, 2]);
    const ofGone = { granted: 7, grantIds: ["a grant"], holds: { gone: expect.any(Number) } };
    expect(expected.quotas).toMatchObject([ofGone, { claimed: 1, granted: 0 }]);
    await source.close();
    const target = await openMongoForTest({ uri });
    expect(await everyKind(target, sizes)).toEqual(expected);
    const client = new MongoClient(uri);
    // So that a month is soon read: the two hours of a day share one.
    const days = await collectionsOf(client.db()).usageHours.countDocuments();
    expect(days).toBeGreaterThan(1);
    await client.close();

    // The bounds of a team's keys hold on: by number, and by request id.
    const full = await target.keys.insert(keyRecordOf({ id: "more", teamId: "acme" }), { activeMax: 275 });
    expect(full).toEqual({ kind: "limit_reached" });
    const one = await target.keys.insert(keyRecordOf({ id: "more", teamId: "acme" }), { activeMax: 276 });
    expect(one).toEqual({ kind: "inserted" });
    // A pair counts as one until both have ended, and is replaced as before.
    expect(expected.teams[1]).toMatchObject({ active: 277 });
    const { old, successor, oldEndMs } = families;
    expect(await target.keys.find(old)).toMatchObject({
      ...{ replacedByKeyId: successor, expireTimeMs: oldEndMs, appIds: ["words"], requestsPerMinute: 7 },
    });
    const { version = 0 } = (await target.keys.find(successor)) ?? {};
    const third = keyRecordOf({ id: "third", teamId: "beta", replacesKeyId: successor, firstKeyId: old });
    const order = { teamId: "beta", keyId: successor, version, successor: { ...third, version: 2 } };
    const later = { kind: "expire", expireTimeMs: oldEndMs + 1 } as const;
    expect(await target.keys.rotate({ ...order, end: later })).toEqual({ kind: "predecessor_active" });
    const beta = keyRecordOf({ id: "of beta", teamId: "beta" });
    expect(await target.keys.insert(beta, { activeMax: 277 })).toEqual({ kind: "limit_reached" });
    await target.keys.markExpired({ nowMs: oldEndMs, limit: 9, teamId: "beta" });
    expect(await target.keys.countActive("beta")).toBe(277);
    expect((await target.keys.rotate({ ...order, end: later })).kind).toBe("rotated");
    expect(await target.keys.countActive("beta")).toBe(277);
    const again = keyRecordOf({ id: "again", teamId: "acme", requestId: "request 6" });
    expect(await target.keys.insert(again, { activeMax: 999 })).toEqual({
      kind: "request_id_used",
      keyId: "key000006",
    });
    await target.close();
  });

  test("a database that holds anything is refused and stays as it was, also one with a whole copy", async () => {
    const [dataDir, uri] = [await filledFolder({ keys: 4, runs: 0 }), databases.createUri()];
    const stores = await openMongoForTest({ uri });
    await stores.preview.set("bob@example.com", true);
    await stores.close();
    await expect(copy(dataDir, uri)).rejects.toThrow(/is not empty: it holds preview\. Nothing was copied\./);
    const after = await openMongoForTest({ uri });
    expect(await after.preview.list({ limit: 9 })).toEqual(["bob@example.com"]);
    expect(await after.teams.list({ limit: 9 })).toEqual([]);
    await after.close();

    const other = databases.createUri();
    await copy(dataDir, other);
    await expect(copy(dataDir, other)).rejects.toThrow(/A copy into it was finished: start Keyrun on it\./);
  });

  test.each(copiedNames)(
    "a copy that is cut off after the %s is started by no Keyrun, and the next one is whole",
    async (last) => {
      const counts = { keys: 40, runs: 4 };
      const [dataDir, uri] = [await filledFolder(counts), databases.createUri()];
      const source = openSqliteSource({ dataDir });
      const parts = {
        clock: systemClock,
        events: silentInstanceEvents,
        uri,
        newIncarnation: () => "8d3f0c52-0000-4000-8000-000000000001",
      };
      const target = await openMongoTarget(parts);
      for (const batch of source.batches()) {
        await target.write(batch);
        if (batch.name === last) break;
      }
      source.close();
      await target.close();
      await expect(openMongoForTest({ uri })).rejects.toThrow(
        /was cut off\. Run the command `copy-to-mongodb`/,
      );

      // What the folder has lost meanwhile must not come back.
      const meanwhile = await openSqliteStores({ dataDir });
      await meanwhile.members.remove("acme", "ada@example.com");
      await meanwhile.keys.delete("key000001");
      const expected = await everyKind(meanwhile, counts);
      await meanwhile.close();
      await copy(dataDir, uri);
      const whole = await openMongoForTest({ uri });
      expect(await everyKind(whole, counts)).toEqual(expected);
      await whole.close();
    },
  );

  test("what something else writes into the copy is found, and no Keyrun starts on it", async () => {
    const [dataDir, uri] = [await filledFolder({ keys: 4, runs: 0 }), databases.createUri()];
    const client = new MongoClient(uri);
    const marked = async () =>
      (await client
        .db()
        .collection("meta")
        .findOne({}, { sort: { _id: 1 } })) !== null;
    const copying = copy(dataDir, uri);
    await expect.poll(marked, { interval: 1 }).toBe(true);
    await client.db().collection("keys").insertOne({ teamId: "acme" });
    await client.close();
    await expect(copying).rejects.toThrow(/What MongoDB holds of the keys is not what was copied/);
    await expect(openMongoForTest({ uri })).rejects.toThrow(StartRefused);
  });

  test("neither a folder nor a database that a Keyrun serves is copied", async () => {
    const [dataDir, uri] = [await filledFolder({ keys: 4, runs: 0 }), databases.createUri()];
    const serving = await openSqliteStores({ dataDir });
    await expect(copy(dataDir, uri)).rejects.toThrow(/Another Keyrun already serves the data folder/);
    await serving.close();
    const other = await openMongoForTest({ uri });
    const parts = {
      clock: systemClock,
      events: silentInstanceEvents,
      uri,
      newIncarnation: () => "8d3f0c52-0000-4000-8000-000000000001",
    };
    const times = { ...steadyInstanceTimes, waitMsMax: 300 };
    await expect(openMongoTarget({ ...parts, times })).rejects.toThrow(
      /Another Keyrun serves this MongoDB database/,
    );
    await other.close();
  });

  test("a copier that was frozen can't mark the copy of its successor as whole", async () => {
    const counts = { keys: 40, runs: 4 };
    const [dataDir, uri] = [await filledFolder(counts), databases.createUri()];
    const parts = { clock: systemClock, events: silentInstanceEvents, uri, newIncarnation: randomUUID };
    // It renews no record and still takes the database for its own, as after its last check.
    const frozenTimes = { ...steadyInstanceTimes, beatMs: 60_000 };
    const frozen = await openMongoTarget({ ...parts, times: frozenTimes });
    const takingOver = { ...steadyInstanceTimes, lapseMs: 300, waitMsMax: 20_000 };
    const successor = await openMongoTarget({ ...parts, times: takingOver });
    const source = openSqliteSource({ dataDir });
    const [first] = source.batches();
    await successor.write(first!);
    await expect(frozen.finish()).rejects.toThrow(/has lost its lock on the MongoDB database.* again/);
    await frozen.close();
    await successor.close();
    source.close();
    await expect(openMongoForTest({ uri })).rejects.toThrow(/was cut off/);
    await copy(dataDir, uri);
    await (await openMongoForTest({ uri })).close();
  });

  test("a copier that was frozen before it began can't begin anew in the copy that another one made", async () => {
    const uri = databases.createUri();
    const client = new MongoClient(uri);
    const collections = collectionsOf(client.db());
    const mark = () => collections.meta.findOne({ _id: "copy" });
    const [none, first] = [await mark(), randomUUID()];
    expect(none).toBeNull();
    expect(await beginCopy(collections, { seen: none, copier: first })).toBe(true);
    expect(await beginCopy(collections, { seen: none, copier: randomUUID() })).toBe(false);
    const underWay = await mark();
    expect(underWay).toEqual({ _id: "copy", version: 1, copier: first });
    expect(await endCopy(collections, first)).toBe(true);
    expect(await beginCopy(collections, { seen: underWay, copier: randomUUID() })).toBe(false);
    expect(await mark()).toEqual({ _id: "copy", version: 2, copier: first });

    // The mark of a copy that an older Keyrun left names no copier.
    await collections.meta.replaceOne({ _id: "copy" }, { version: 1 });
    const [older, next] = [await mark(), randomUUID()];
    expect(older).toEqual({ _id: "copy", version: 1 });
    expect(await beginCopy(collections, { seen: older, copier: next })).toBe(true);
    expect(await beginCopy(collections, { seen: older, copier: randomUUID() })).toBe(false);
    expect(await endCopy(collections, first)).toBe(false);
    expect(await endCopy(collections, next)).toBe(true);
    await client.close();
  });

  test("a copier that has lost the database says so, and does not blame MongoDB", async () => {
    const [dataDir, uri] = [await filledFolder({ keys: 4, runs: 0 }), databases.createUri()];
    const parts = { clock: systemClock, events: silentInstanceEvents, uri, newIncarnation: randomUUID };
    const target = await openMongoTarget({ ...parts, times: steadyInstanceTimes });
    const client = new MongoClient(uri);
    await client.db().collection("control").deleteMany({});
    await client.close();
    const source = openSqliteSource({ dataDir });
    const [first] = source.batches();
    const count = () => target.count("teams").catch((thrown: unknown) => thrown);
    await expect.poll(count).toBeInstanceOf(StartRefused);
    await expect(target.count("teams")).rejects.toThrow(/has lost its lock on the MongoDB database.* again/);
    await expect(target.write(first!)).rejects.toBeInstanceOf(StartRefused);
    source.close();
    await target.close();
  });

  test("a damaged record is named by its table and fields, without a value", async () => {
    const [dataDir, uri] = [await filledFolder({ keys: 4, runs: 0 }), databases.createUri()];
    const db = new DatabaseSync(join(dataDir, "keyrun.db"));
    db.exec("UPDATE apps SET backend = '{\"kind\": hidden', team_ids = '[7]'");
    db.close();
    const refused = copy(dataDir, uri);
    await expect(refused).rejects.toThrow(
      /table apps of the data folder does not fit .* at backend, teamIds.*backup/,
    );
    await expect(refused).rejects.toBeInstanceOf(StartRefused);
    await expect(refused).rejects.not.toThrow(/hidden|7\]/);
    await expect(openMongoForTest({ uri })).rejects.toThrow(/was cut off/);
  });

  test("an instance of a fleet does not register on a part of a copy that began after its start", async () => {
    const uri = databases.createUri();
    const stores = await openMongoForTest({ uri, fleet: true });
    const parts = { clock: systemClock, events: silentInstanceEvents, uri, newIncarnation: randomUUID };
    const cutOff = await openMongoTarget(parts);
    await cutOff.close();
    const { control } = stores.fleet!;
    const refused = control.register(randomUUID(), instanceFactsOf());
    await expect(refused).rejects.toThrow(/was cut off\. Run the command `copy-to-mongodb`/);
    await expect(refused).rejects.toBeInstanceOf(StartRefused);
    expect((await control.read()).leases).toEqual([]);
    await stores.close();
  });

  test("a folder without a store is refused, and none is made", async () => {
    const dataDir = folders.create();
    await expect(copy(dataDir, databases.createUri())).rejects.toThrow(
      /There is no store in .*KEYRUN_DATA_DIR/,
    );
    await expect(copy(dataDir, databases.createUri())).rejects.toThrow(/There is no store in/);
  });
});
