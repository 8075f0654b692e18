import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createRecordQuota } from "#src/run/kept/record-quota.ts";
import { createRecordSweep } from "#src/run/kept/run-records.ts";
import type { RunRecord } from "#src/run/kept/run-store.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { figures } from "../../harness/campaigns.ts";
import { createManualClock, type ManualClock } from "../../harness/manual-clock.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { openMongoForTest } from "../../harness/open-mongo.ts";
import { runEndOf, runRecordOf } from "../../harness/store-records.ts";
import { createTempFolders } from "../../harness/temp-folders.ts";
import { keptInstance, startApp } from "./kept-instances.ts";

describeWith(mongodbMissing)("two instances on one MongoDB", () => {
  const databases = createMongoDatabases();
  let stores: Stores;
  beforeAll(async () => {
    stores = await openMongoForTest({ uri: databases.createUri() });
  });
  afterAll(async () => {
    await stores.close();
    await databases.drop();
  });

  /** Both know each other. */
  function twoInstances() {
    const backend = startApp();
    const [one, other] = [keptInstance(stores.runs, backend), keptInstance(stores.runs, backend)];
    const live = new Set([one.ways.owner!, other.ways.owner!]);
    for (const { ways } of [one, other]) ways.live = live;
    onTestFinished(async () => {
      backend.end();
      await Promise.all([one.runs.close(), other.runs.close()]);
    });
    return { backend, live, one, other };
  }

  const fresh = (word: string) => ({ text: `${word} ${randomUUID()}`, key: randomUUID() });

  test("a key is under way on both, and once it has ended both tell the same answer", async () => {
    const { backend, one, other } = twoInstances();
    const order = fresh("wait");
    const first = one.ask(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    expect(await other.ask(order)).toBe("running");
    expect(await other.ask({ ...order, text: "another text" })).toBe("IDEMPOTENCY_KEY_REUSED");
    backend.release(order.text);
    expect(await first).toBe(order.text.toUpperCase());
    expect(await other.ask(order)).toBe(`${order.text.toUpperCase()}*`);
    expect((await other.start(order)).record.id).toBe((await one.start(order)).record.id);
    expect(backend.starts(order.text)).toBe(1);
  });

  test("an end that another instance wrote first stands, and the owner's caller gets it", async () => {
    const { backend, one, other } = twoInstances();
    const order = fresh("wait");
    const { record, output } = await one.start(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    await other.runs.cancel(record);
    backend.release(order.text);
    await expect(output).rejects.toMatchObject({ reason: "RUN_CANCELLED" });
    expect(await other.ask(order)).toBe("RUN_CANCELLED*");
    expect(backend.starts(order.text)).toBe(1);
  });

  const keys = 40;
  test(`the same key from eight callers of two instances starts the app once, for ${keys} keys`, async () => {
    const { backend, one, other } = twoInstances();
    let requests = 0;
    let inUse = 0;
    /** Repeats until there is an answer, as a client that retries does. */
    async function answerOf({ start, runs }: typeof one, order: ReturnType<typeof fresh>): Promise<string> {
      for (;;) {
        requests += 1;
        const { record, output } = await start(order);
        await output;
        const state = output ? "succeeded" : (await runs.find(record.id))?.state;
        if (state === "succeeded") return record.id;
        expect(state).toBe("running");
        inUse += 1;
        await sleep(5);
      }
    }
    const wrong: string[] = [];
    const round = async () => {
      const order = fresh("hello");
      const callers = Array.from({ length: 8 }, (_, n) => answerOf(n % 2 === 0 ? one : other, order));
      const runIds = new Set(await Promise.all(callers));
      const starts = backend.starts(order.text);
      if (starts !== 1 || runIds.size !== 1) wrong.push(`${starts} starts, ${runIds.size} answers`);
    };
    for (let done = 0; done < keys; done += 4) await Promise.all([round(), round(), round(), round()]);
    figures(`${keys} keys`, { requests, "met a key in use": inUse, "started twice": wrong.length });
    expect(wrong).toEqual([]);
    expect(inUse).toBeGreaterThan(0);
  });

  test("two sweeps at once remove what has expired, and nothing else", async () => {
    const clock = createManualClock();
    const count = 3 * runBounds.recordSweepMax;
    const records = Array.from({ length: count }, (_, n) => recordOf(`swept-${n}`, clock));
    const young = { ...recordOf("young", clock), expireTimeMs: clock.unixMs() + 2 };
    for (let n = 0; n < count; n += 200) await insertAll(stores, records.slice(n, n + 200));
    await insertAll(stores, [young]);
    clock.advance(1);
    const sweeps = [1, 2].map(() =>
      createRecordSweep({
        ...{ store: stores.runs, expiredMs: clock.unixMs, onRemoved: () => {}, sweepMs: 5 },
        onFailed: (cause) => expect.unreachable(String(cause)),
      }),
    );
    for (const sweep of sweeps) sweep.start();
    await expect.poll(() => stores.runs.totals("swept"), { timeout: 60_000 }).toMatchObject({ records: 1 });
    for (const sweep of sweeps) await sweep.close();
    expect(await stores.runs.find("young")).toBeDefined();
  });
});

function recordOf(id: string, clock: ManualClock): RunRecord {
  const nowMs = clock.unixMs();
  return runRecordOf({ id, teamId: "swept", createTimeMs: nowMs, expireTimeMs: nowMs + 1 });
}

async function insertAll(stores: Stores, records: readonly RunRecord[]): Promise<void> {
  await stores.runs.write(records.map((record) => ({ kind: "insert", id: record.id, record })));
}

describe("the room of a team on two instances", () => {
  const folders = createTempFolders();
  afterAll(() => folders.remove());
  const recordsMax = 128;

  /** Two rooms over one store; a claim through a room is written, as a run's is. */
  async function twoRooms({ counts }: { counts?: () => boolean } = {}) {
    const stores = await openSqliteStores({ dataDir: folders.create() });
    onTestFinished(() => stores.close());
    const clock = createManualClock();
    const store = stores.runs;
    const totals: typeof store.totals = async (teamId) => {
      if (counts?.() === false) throw new Error("the store is slow");
      return store.totals(teamId);
    };
    const rooms = [1, 2].map(() =>
      createRecordQuota({ store: { ...store, totals }, sharedBy: { clock }, textsBytesMax: 64 }),
    );
    let n = 0;
    const claim = async (place: number, createdUntilMs = 0) => {
      const isThere = await rooms[place]!.takeRecord("swept", { recordsMax, createdUntilMs });
      if (isThere) await insertAll(stores, [recordOf(`k${n++}`, clock)]);
      // A count that runs in the background ends.
      await sleep(0);
      return isThere;
    };
    return { stores, store, clock, rooms, claim };
  }

  test("holds little more than the bound, although each counts only what it adds itself", async () => {
    const { store, claim } = await twoRooms();
    for (let n = 0; n < 2 * recordsMax; n++) await claim(n % 2);
    const { records } = await store.totals("swept");
    expect(records).toBeLessThanOrEqual(recordsMax + 2 * (recordsMax / runBounds.recountShare));
    expect(records).toBeGreaterThanOrEqual(recordsMax);
  });

  test("is free again here when another has removed the records", async () => {
    const { store, clock, claim } = await twoRooms();
    for (let n = 0; n < recordsMax; n++) expect(await claim(0)).toBe(true);
    expect(await claim(0)).toBe(false);
    await store.deleteAll("swept", recordsMax);
    clock.advance(runBounds.recountMsMin);
    expect(await claim(0)).toBe(true);
    expect(await store.totals("swept")).toMatchObject({ records: 1 });
  });

  test("loses no record to a count that is out of date", async () => {
    const { stores, store, clock, claim } = await twoRooms();
    for (let n = 0; n < recordsMax; n++) expect(await claim(0)).toBe(true);
    await store.deleteAll("swept", recordsMax);
    await insertAll(stores, [recordOf("kept", clock)]);
    clock.advance(runBounds.recountMsMin);
    expect(await claim(0, clock.unixMs())).toBe(true);
    expect(await store.find("kept")).toBeDefined();
  });

  test("keeps what it knew where it can't be counted again", async () => {
    let counts = true;
    const { claim } = await twoRooms({ counts: () => counts });
    expect(await claim(0)).toBe(true);
    counts = false;
    for (let n = 1; n < recordsMax; n++) expect(await claim(0)).toBe(true);
    expect(await claim(0)).toBe(false);
  });

  test("holds the texts of both within their bytes, and drops none for a count that is out of date", async () => {
    const { stores, store, clock, rooms } = await twoRooms();
    const end = async (place: number, id: string) => {
      await rooms[place]!.takeText("swept", 16);
      await insertAll(stores, [recordOf(id, clock)]);
      await store.write([{ kind: "end", id, end: runEndOf("x".repeat(16)) }]);
      clock.advance(runBounds.recountMsMin);
      await sleep(0);
    };
    for (let n = 0; n < 8; n++) await end(n % 2, `t${n}`);
    expect((await store.totals("swept")).textBytes).toBeLessThanOrEqual(64 + 16);
    await store.dropTexts("swept", { bytes: 1_000, limit: 100 });
    await end(0, "last");
    await end(1, "very-last");
    expect(await store.textOf("last")).not.toBeNull();
  });
});
