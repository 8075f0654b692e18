import { randomUUID } from "node:crypto";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { createLockTeam } from "#src/store/mongo/lock.ts";
import { createStoreCall } from "#src/store/mongo/store-call.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { openMongoForTest } from "../../harness/open-mongo.ts";

describeWith(mongodbMissing)("the lock of a team's id in MongoDB", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  const times = { renewMs: 20, lockMs: 60_000, lapseMs: 1_000, waitMsMax: 20_000 };

  async function instance(uri: string, { waitMsMax } = times) {
    const { client, db } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
    onTestFinished(() => client.close());
    return createLockTeam(collectionsOf(db), {
      ...{ clock: systemClock, newIncarnation: randomUUID, times: { ...times, waitMsMax } },
      ...{ call: createStoreCall(20_000), readOptions: {} },
    });
  }

  test("of several instances one has the lock at a time, for each id apart", async () => {
    const uri = databases.createUri();
    const instances = [await instance(uri), await instance(uri), await instance(uri)];
    let locked = 0;
    const seen: number[] = [];
    await Promise.all(
      instances.map(async (lockTeam) => {
        const guard = await lockTeam("demo");
        seen.push(++locked);
        await (await lockTeam("another")).release();
        expect(guard.isValid()).toBe(true);
        locked -= 1;
        await guard.release();
      }),
    );
    expect(seen).toEqual([1, 1, 1]);
  });

  test("a turn that is kept for too long is UNAVAILABLE to the others", async () => {
    const uri = databases.createUri();
    const guard = await (await instance(uri))("demo");
    const impatient = await instance(uri, { ...times, waitMsMax: 1_500 });
    await expect(impatient("demo")).rejects.toMatchObject({ reason: "UNAVAILABLE" });
    await guard.release();
  });

  test("the turn of a crashed instance lapses", async () => {
    const uri = databases.createUri();
    const { client, db } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
    onTestFinished(() => client.close());
    await collectionsOf(db).instances.insertOne({ _id: "team/demo", incarnation: "crashed", beat: 7 });
    const guard = await (await instance(uri))("demo");
    expect(guard.isValid()).toBe(true);
    await guard.release();
    expect(await collectionsOf(db).instances.countDocuments()).toBe(0);
  });

  test("the stores of a fleet give them, and those of an instance alone need none", async () => {
    const uri = databases.createUri();
    const alone = await openMongoForTest({ uri });
    expect(alone.fleet).toBeUndefined();
    await alone.close();
    const stores = await openMongoForTest({ uri, fleet: true });
    onTestFinished(() => stores.close());
    const guard = await stores.fleet!.lockTeam("demo");
    expect(guard.isValid()).toBe(true);
    await guard.release();
    expect(guard.isValid()).toBe(false);
  });
});
