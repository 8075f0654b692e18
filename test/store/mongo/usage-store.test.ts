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
    const time = { teamId: "t", fromMs: day0, untilMs: day0 + 4 * day };
    /** The accepted requests of all hours, and of all days. */
    const accepted = async () => {
      const sums = [await stores.usage.hours(time), await stores.usage.days(time)];
      return sums.map((each) => each.reduce((sum, { acceptedCount }) => sum + acceptedCount, 0));
    };
    return { ...stores, ...collectionsOf(db), accepted };
  }

  const hourOf = (keyId: string, acceptedCount: number, startTimeMs = day0) => ({
    ...{ teamId: "t", keyId, startTimeMs, acceptedCount },
    ...{ limitedCount: 0, failedCount: 0, appMs: 0 },
  });

  test("a long time is read from a document for each key and day, whoever has counted", async () => {
    const { usage, usageHours, accepted } = await openUsage();
    const hours = [0, 1, 2, 3].flatMap((n) => [0, 5 * hour].map((ms) => hourOf("k", 1, day0 + n * day + ms)));
    for (const incarnation of ["i1", "i2", "i3"]) await usage.add({ incarnation, number: 1, hours });
    expect(await accepted()).toEqual([24, 24]);
    expect(await usageHours.countDocuments()).toBe(4);
  });

  test("a batch that is repeated adds what is not there of it, and nothing twice", async () => {
    const { usage, usageHours, usageDays, accepted } = await openUsage();
    const batch = { incarnation: "one", number: 1, hours: [hourOf("k", 5), hourOf("l", 7, day0 + hour)] };
    await usage.add(batch);
    await usage.add(batch);
    expect(await accepted()).toEqual([12, 12]);
    // As if the process had been cut off after some of it.
    await usageHours.deleteOne({ keyId: "l" });
    await usageDays.deleteMany({});
    await usage.add(batch);
    expect(await accepted()).toEqual([12, 12]);
    await usage.add({ ...batch, number: 2 });
    expect(await accepted()).toEqual([24, 24]);
    // Another process has its own numbers, and takes none of them from the first.
    await usage.add({ ...batch, incarnation: "two", number: 2 });
    await usage.add({ ...batch, number: 2 });
    expect(await accepted()).toEqual([36, 36]);
  });

  test("of processes that make the same documents at once, none loses a count or adds one twice", async () => {
    const uri = databases.createUri();
    const [one, other] = [
      await openUsage({ uri, fleet: true }),
      await openUsage({ uri, fleet: true }),
    ] as const;
    for (let number = 1; number <= 20; number++) {
      const hours = [0, 1, 2].map((n) => hourOf(`k${number}-${n}`, 1));
      const batches = ["i1", "i2", "i3", "i4"].map((incarnation) => ({ incarnation, number, hours }));
      await Promise.all(batches.map((batch, n) => (n % 2 === 0 ? one : other).usage.add(batch)));
      await one.usage.add({ incarnation: "i1", number, hours });
      expect(await one.accepted()).toEqual([12 * number, 12 * number]);
    }
  });
});
