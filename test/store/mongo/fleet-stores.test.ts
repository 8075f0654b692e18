import { randomUUID } from "node:crypto";
import { MongoClient } from "mongodb";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { factsAlone } from "#src/fleet/alone.ts";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { createControlStore } from "#src/store/mongo/control-store.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { createStoreCall } from "#src/store/mongo/store-call.ts";
import { schemaNumber } from "#src/store/schema-number.ts";
import type { Stores } from "#src/store/stores.ts";
import { instanceFactsOf } from "../../harness/instance-facts.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { openMongoForTest, shortInstanceTimes, silentInstanceEvents } from "../../harness/open-mongo.ts";
import { keyRecordOf, newAppOf, teamRecordOf } from "../../harness/store-records.ts";

describeWith(mongodbMissing)("the stores of a fleet in MongoDB", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  async function open(uri: string, parts: { fleet: boolean; brief?: boolean }): Promise<Stores> {
    const times = parts.brief ? { times: shortInstanceTimes } : {};
    const stores = await openMongoForTest({ uri, fleet: parts.fleet, ...times });
    onTestFinished(() => stores.close());
    return stores;
  }

  test("instances that start at once on an empty database all open it, with one schema, one id and every index", async () => {
    const uri = databases.createUri();
    const opened = await Promise.all(Array.from({ length: 4 }, () => open(uri, { fleet: true })));
    expect(opened.map(({ guard }) => guard.isValid())).toEqual([true, true, true, true]);
    const client = await new MongoClient(uri).connect();
    onTestFinished(() => client.close());
    const [fleetId, ...otherIds] = new Set(opened.map(({ fleet }) => fleet?.id));
    expect(await client.db().collection("meta").find().sort({ _id: 1 }).toArray()).toEqual([
      { _id: "fleet", version: 1, fleetId },
      { _id: "schema", version: schemaNumber },
    ]);
    expect(otherIds).toEqual([]);
    expect(fleetId).toMatch(/^[0-9a-f]{12}$/);
    const unique = (await client.db().collection("keys").indexes()).filter((index) => index.unique);
    expect(unique.map(({ name }) => name).sort()).toEqual(["requestKey_1", "slot_1"]);
    const alone = await openMongoForTest({ uri: databases.createUri() });
    onTestFinished(() => alone.close());
    expect(alone.fleet).toBeUndefined();
  });

  test("what one instance writes, each of the others reads at once", async () => {
    const uri = databases.createUri();
    const [one, other] = await Promise.all([open(uri, { fleet: true }), open(uri, { fleet: true })]);
    await one!.teams.insert(teamRecordOf({ id: "demo" }));
    const key = keyRecordOf({ id: "k", teamId: "demo" });
    await other!.keys.insert(key, { activeMax: 5 });
    await one!.apps.insert(newAppOf({ id: "echo" }));
    expect(await other!.teams.find("demo")).toBeDefined();
    expect(await one!.keys.find("k")).toEqual(key);
    expect(await other!.apps.find("echo")).toBeDefined();
    await other!.keys.revoke({ teamId: "demo", keyId: "k", revokeTimeMs: 5, revokedBy: "ada" });
    expect(await one!.keys.find("k")).toMatchObject({ revokeTimeMs: 5, version: 2 });
  });

  test("a closed instance answers nothing, and the others go on", async () => {
    const uri = databases.createUri();
    const [one, other] = await Promise.all([open(uri, { fleet: true }), open(uri, { fleet: true })]);
    await one!.close();
    expect(one!.guard.isValid()).toBe(false);
    await expect(one!.teams.find("demo")).rejects.toMatchObject({ reason: "UNAVAILABLE" });
    await expect(one!.fleet!.control.read()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
    expect(await other!.teams.find("demo")).toBeUndefined();
  });

  test("an instance alone is refused while a fleet serves, and starts once its last one has left", async () => {
    const uri = databases.createUri();
    const { control } = (await open(uri, { fleet: true })).fleet!;
    const id = randomUUID();
    await control.register(id, instanceFactsOf());
    await expect(open(uri, { fleet: false })).rejects.toThrow(/A fleet serves this MongoDB database/);
    // It has left no record that would keep an instance of the fleet from coming back.
    await control.remove(id);
    await control.register(id, instanceFactsOf());
    await control.remove(id);
    const alone = await open(uri, { fleet: false });
    expect(alone.guard.isValid()).toBe(true);
  });

  test("a fleet is refused while an instance serves alone, and one that is open already can't join", async () => {
    const uri = databases.createUri();
    const early = await open(uri, { fleet: true });
    const alone = await open(uri, { fleet: false });
    await expect(open(uri, { fleet: true })).rejects.toThrow(/without KEYRUN_REDIS_URL serves/);
    await expect(early.fleet!.control.register(randomUUID(), instanceFactsOf())).rejects.toMatchObject({
      reason: "UNAVAILABLE",
    });
    expect(alone.guard.isValid()).toBe(true);
    await alone.close();
    const { leases } = await early.fleet!.control.register(randomUUID(), instanceFactsOf());
    expect(leases).toHaveLength(1);
  });

  test("an instance alone sees a fleet that began while it waited for one that had crashed", async () => {
    const uri = databases.createUri();
    const { client, db } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
    onTestFinished(() => client.close());
    const control = createControlStore(collectionsOf(db), {
      call: createStoreCall(20_000),
      readOptions: {},
    });
    const crashed = randomUUID();
    await control.register(crashed, factsAlone);
    const stop = new AbortController();
    const serve = async () => {
      const id = randomUUID();
      await control.register(id, instanceFactsOf());
      while (!stop.signal.aborted) await control.beat(id, { ack: 0, nSeen: 0 });
    };
    let serving: Promise<void> | undefined;
    const alone = openMongoForTest({
      uri,
      times: { ...shortInstanceTimes, beatMs: 20, leaseMs: 60_000, lapseMs: 1_000, waitMsMax: 1_200 },
      events: {
        ...silentInstanceEvents,
        onWaiting() {
          serving ??= serve();
        },
      },
    });
    await expect(alone).rejects.toThrow(/A fleet serves this MongoDB database/);
    stop.abort();
    await serving;
    expect((await control.read()).leases.map(({ id }) => id)).not.toContain(crashed);
  });

  test("of an instance alone and one of a fleet that start at once, never both serve", async () => {
    for (let round = 0; round < 8; round++) {
      const uri = databases.createUri();
      const [alone, fleet] = await Promise.allSettled([
        open(uri, { fleet: false }),
        open(uri, { fleet: true }).then(async (stores) => {
          await stores.fleet!.control.register(randomUUID(), instanceFactsOf());
          return stores;
        }),
      ]);
      expect([alone.status, fleet.status], `round ${round}`).not.toEqual(["fulfilled", "fulfilled"]);
      for (const one of [alone, fleet]) if (one.status === "fulfilled") await one.value.close();
    }
  });

  test("the records of a fleet that crashed hold an instance alone up no longer than a lapse", async () => {
    const uri = databases.createUri();
    const crashed = await open(uri, { fleet: true });
    const id = randomUUID();
    await crashed.fleet!.control.register(id, instanceFactsOf());
    const alone = await open(uri, { fleet: false, brief: true });
    expect(alone.guard.isValid()).toBe(true);
    expect(await crashed.fleet!.control.beat(id, { ack: 0, nSeen: 0 })).toBeUndefined();
  });
});
