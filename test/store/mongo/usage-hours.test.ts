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
  async function openUsage() {
    const uri = databases.createUri();
    const { usage, close } = await openMongoForTest({ uri });
    onTestFinished(close);
    const { client, db } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
    onTestFinished(() => client.close());
    return { usage, usageHours: collectionsOf(db).usageHours };
  }

  test("a long time is read from a document for each key and day, and not from those of each process", async () => {
    const { usage, usageHours } = await openUsage();
    const days = [0, 1, 2, 3].map((n) => day0 + n * day);
    const counts = { acceptedCount: 1, limitedCount: 0, failedCount: 0, appMs: 0 };
    await usage.recordHours(
      days.flatMap((startTimeMs) =>
        ["i1", "i2", "i3"].map((incarnation) => ({
          ...{ teamId: "t", keyId: "k", startTimeMs, incarnation },
          ...counts,
        })),
      ),
    );
    for (const startTimeMs of days.slice(0, 3)) await usage.setDay("t", startTimeMs);
    // Behind the store's back: what reads these documents sees another count.
    await usageHours.updateMany({ incarnation: "i1" }, { $set: { a0: 100 } });
    const accepted = async (untilMs: number) => {
      const sums = await usage.hours({ teamId: "t", fromMs: day0, untilMs, except: [] });
      return sums.map(({ acceptedCount }) => acceptedCount).sort((a, b) => a - b);
    };
    expect(await accepted(day0 + 4 * day)).toEqual([3, 3, 3, 102]);
    // Few documents are read at once.
    expect(await accepted(day0 + 2 * day)).toEqual([102, 102]);
  });

  test("hours that an early Keyrun wrote without counting its writes are read from their documents", async () => {
    const { usage, usageHours } = await openUsage();
    const place = { teamId: "t", keyId: "k", dayMs: day0, incarnation: "i1" };
    await usageHours.insertOne({ _id: `t/${day0}/k/i1`, ...place, a3: 7 });
    const accepted = async () => {
      const sums = await usage.hours({ teamId: "t", fromMs: day0, untilMs: day0 + 4 * day, except: [] });
      return sums.map(({ acceptedCount }) => acceptedCount);
    };
    expect(await accepted()).toEqual([7]);
    await usage.setDay("t", day0);
    await usageHours.updateOne({ _id: `t/${day0}/k/i1` }, { $max: { a3: 50 } });
    expect(await accepted()).toEqual([50]);
  });
});
