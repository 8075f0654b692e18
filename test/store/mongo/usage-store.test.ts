import { afterAll, expect, onTestFinished, test } from "vitest";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { openMongoForTest } from "../../harness/open-mongo.ts";

const hour = 3_600_000;
const day = 24 * hour;
const day0 = 19_700 * day;

describeWith(mongodbMissing)("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  /** The store of a new database, and its documents. */
  async function openUsage({ fleet = false, uri = databases.createUri() } = {}) {
    const stores = await openMongoForTest({ uri, fleet });
    onTestFinished(stores.close);
    const { client, db } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
    onTestFinished(() => client.close());
    const accepted = async () => {
      const query = { teamId: "t", fromMs: day0, untilMs: day0 + 4 * day, except: [] };
      return (await stores.usage.hours(query)).map(({ acceptedCount }) => acceptedCount);
    };
    return { ...stores, ...collectionsOf(db), accepted };
  }

  const hourOf = (incarnation: string, acceptedCount: number, startTimeMs = day0) => ({
    ...{ teamId: "t", keyId: "k", startTimeMs, incarnation, acceptedCount },
    ...{ limitedCount: 0, failedCount: 0, appMs: 0 },
  });

  test("a long time is read from a document for each key and day, and not from those of each process", async () => {
    const { usage, usageHours, usageDayHours, accepted } = await openUsage();
    const days = [0, 1, 2, 3].map((n) => day0 + n * day);
    const processes = ["i1", "i2", "i3"];
    await usage.recordHours(days.flatMap((startMs) => processes.map((name) => hourOf(name, 1, startMs))));
    for (const startTimeMs of days.slice(0, 3)) await usage.setDay("t", startTimeMs);
    expect(await accepted()).toEqual([3, 3, 3, 3]);
    expect(await usageHours.distinct("dayMs")).toEqual([day0 + 3 * day]);
    expect(await usageDayHours.countDocuments()).toBe(3);
    const hours = JSON.stringify({ i1: [[0, 1, 0, 0, 0]], i2: [[0, 1, 0, 0, 0]], i3: [[0, 1, 0, 0, 0]] });
    expect(await usageDayHours.findOne({ _id: `t/${day0}/k` })).toMatchObject({ dayMs: day0, hours });
  });

  test("what a process writes again after its day was set counts once, and more of it counts", async () => {
    const { usage, accepted, usageHours } = await openUsage();
    await usage.recordHours([hourOf("i1", 5), hourOf("i2", 10)]);
    await usage.setDay("t", day0);
    await usage.recordHours([hourOf("i1", 5)]);
    expect(await accepted()).toEqual([15]);
    await usage.recordHours([hourOf("i1", 7)]);
    expect(await accepted()).toEqual([17]);
    await usage.setDay("t", day0);
    expect([await accepted(), await usageHours.countDocuments()]).toEqual([[17], 0]);
  });

  test("of instances that set a day at once while hours are written, none loses a count", async () => {
    const uri = databases.createUri();
    const [one, other] = [
      await openUsage({ uri, fleet: true }),
      await openUsage({ uri, fleet: true }),
    ] as const;
    for (let n = 1; n <= 20; n++) {
      await one.usage.recordHours(["i1", "i2", "i3"].map((name) => hourOf(name, n)));
      await Promise.allSettled([
        one.usage.setDay("t", day0),
        other.usage.setDay("t", day0),
        other.usage.recordHours([hourOf("other", n), hourOf("late", n)]),
      ]);
      expect(await one.accepted()).toEqual([5 * n]);
    }
    await one.usage.setDay("t", day0);
    expect(await one.usageHours.countDocuments()).toBe(0);
    const [sum] = await one.usage.days({ teamId: "t", fromMs: day0, untilMs: day0 + day });
    expect(sum).toMatchObject({ acceptedCount: 100 });
  });
});
