import { PerformanceObserver } from "node:perf_hooks";
import { setImmediate } from "node:timers/promises";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { collectionsOf, type UsageDayDocument, type UsageHoursDocument } from "#src/store/mongo/documents.ts";
import { dayDocumentOf, hourDocumentOf } from "#src/store/mongo/usage-store.ts";
import { createReadUsage } from "#src/usage/get-usage.ts";
import { createPendingUsage } from "#src/usage/pending-usage.ts";
import { createCountRuns, createUsageWriter } from "#src/usage/usage.ts";
import {
  dayMs,
  hourMs,
  type UsageCounts,
  type UsageRecord,
  type UsageStore,
} from "#src/usage/usage-store.ts";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";
import { openTestStores } from "../usage/open-test-stores.ts";

const days = 35;
const todayMs = 19_700 * dayMs;
const fromMs = todayMs - (days - 1) * dayMs;
const keyIds = Array.from({ length: 50 }, (_, n) => `7k3f0m9x2a4c6e8g1j5n7p${n + 10}`);
const incarnations = ["i1", "i2", "i3"];

const ofProcess = { acceptedCount: 80, limitedCount: 2, failedCount: 1, appMs: 1_234 };
const ofAll = { acceptedCount: 240, limitedCount: 6, failedCount: 3, appMs: 3_702 };

/** The hours of a day, with these counts. In 35 days they are over 10 million requests. */
function hoursOf(startMs: number, counts: UsageCounts): UsageRecord[] {
  return Array.from({ length: 24 }, (_, hour) => startMs + hour * hourMs).flatMap((startTimeMs) =>
    keyIds.map((keyId) => ({ teamId: "t", keyId, startTimeMs, ...counts })),
  );
}

function* daysFrom(firstMs: number): Generator<number> {
  for (let startMs = firstMs; startMs <= todayMs; startMs += dayMs) yield startMs;
}

async function queryTimes(store: UsageStore): Promise<string> {
  const pending = createPendingUsage({ incarnation: "reader" });
  for (const keyId of keyIds) pending.accepted("t", keyId, todayMs + 23 * hourMs);
  const onFailed = (cause: unknown) => expect.unreachable(String(cause));
  const writer = createUsageWriter({ pending, store, onFailed, onLost: onFailed });
  const read = createReadUsage(store, writer.flush);
  const endMs = todayMs + dayMs;
  const queries = {
    "a team's 24 hours": { stepMs: hourMs, fromMs: endMs - dayMs },
    "24 hours of 50 keys": { stepMs: hourMs, fromMs: endMs - dayMs, keyIds },
    "a team's 30 days": { stepMs: dayMs, fromMs: endMs - 30 * dayMs },
    "30 days of 50 keys": { stepMs: dayMs, fromMs: endMs - 30 * dayMs, keyIds },
    "a key's 35 days by hour": { stepMs: hourMs, fromMs, keyId: keyIds[7] },
    "a team's 35 days by hour": { stepMs: hourMs, fromMs },
  };
  const words: string[] = [];
  for (const [name, query] of Object.entries(queries)) {
    const times: number[] = [];
    for (let n = 0; n < 5; n++) {
      const beganMs = performance.now();
      const sums = await read({ teamId: "t", untilMs: endMs, ...query });
      times.push(performance.now() - beganMs);
      expect(sums.length).toBeGreaterThan(2);
    }
    const [, , medianMs = 0] = times.toSorted((a, b) => a - b);
    words.push(`${name} ${medianMs.toFixed(1)} ms`);
  }
  return words.join(", ");
}

test("in the embedded store, the usage of 10 million requests is read whole", async () => {
  const { usage } = await openTestStores();
  let number = 0;
  for (const startMs of daysFrom(fromMs)) {
    number++;
    const hours = hoursOf(startMs, ofProcess);
    for (const incarnation of incarnations) await usage.add({ incarnation, number, hours });
  }
  figure("embedded store", await queryTimes(usage));
});

describeWith(mongodbMissing)("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  // FerretDB has no index for it and reads every document, so it gets three days of the 35.
  const mongoDays = campaignSize("usage");

  test(`in MongoDB, the usage of ${mongoDays} days is read whole`, { timeout: 300_000 }, async () => {
    const uri = databases.createUri();
    const stores = await openMongoForTest({ uri });
    onTestFinished(() => stores.close());
    const { client, db } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
    onTestFinished(() => client.close());
    const { usageHours, usageDays } = collectionsOf(db);
    for (const startMs of daysFrom(todayMs - (mongoDays - 1) * dayMs)) {
      // What `add` would make of them, hour by hour.
      const hours = hoursOf(startMs, ofAll);
      await usageHours.insertMany(documentsOf(hours.map(hourDocumentOf)) as UsageHoursDocument[]);
      const days = hours.slice(0, keyIds.length).map(dayDocumentOf);
      await usageDays.insertMany(documentsOf(days) as UsageDayDocument[]);
    }
    figure("MongoDB", await queryTimes(stores.usage));
  });
});

function documentsOf(parts: readonly ReturnType<typeof hourDocumentOf>[]): object[] {
  return [...Map.groupBy(parts, ({ _id }) => _id)].map(([_id, ofDocument]) =>
    Object.assign({ _id }, ...ofDocument.flatMap(({ place, counts }) => [place, counts])),
  );
}

describe("to count a request and its run", () => {
  const pending = createPendingUsage({ incarnation: "one" });
  const countRun = createCountRuns(pending, Date.now);
  const runs = keyIds.map((keyId) => ({ teamId: "t", keyId }));
  const times = 2_000_000;
  function countAll() {
    const [beganMs, nowMs] = [performance.now(), Date.now()];
    for (let n = 0; n < times; n++) {
      const run = runs[n % 50]!;
      pending.accepted(run.teamId, run.keyId, nowMs);
      countRun(run, "OK", 0.02);
    }
    return { beganMs, endedMs: performance.now() };
  }

  // A time can't decide on a busy machine. What would make it dearer is garbage, which is
  // counted.
  test("allocates nothing", async () => {
    const startsMs: number[] = [];
    const observer = new PerformanceObserver((list) => {
      startsMs.push(...list.getEntries().map(({ startTime }) => startTime));
    });
    observer.observe({ entryTypes: ["gc"] });
    onTestFinished(() => observer.disconnect());
    countAll();
    const { beganMs, endedMs } = countAll();
    figure("to count a request and its run", ((endedMs - beganMs) / times) * 1e6, "ns");
    // The entries come in the next turn.
    await setImmediate();
    const collections = startsMs.filter((startMs) => startMs > beganMs && startMs < endedMs);
    // An object for each would fill the young generation 50 times.
    expect(collections.length).toBeLessThan(4);
  });
});
