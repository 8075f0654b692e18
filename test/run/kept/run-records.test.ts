import { setImmediate as turn } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { bounds } from "#src/bounds.ts";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { type Refusal, unavailable } from "#src/refusal/refusal.ts";
import { readKeptText } from "#src/run/kept/kept-run-service.ts";
import { createRecordQuota } from "#src/run/kept/record-quota.ts";
import { createRecordWriter, createRetryQueue } from "#src/run/kept/record-writer.ts";
import { createRecordSweep, createRunRecords } from "#src/run/kept/run-records.ts";
import type { RunChange, RunRecord, RunState } from "#src/run/kept/run-store.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { countTurns } from "../../harness/counted-turns.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { runEndOf, runRecordOf } from "../../harness/store-records.ts";

const folders = tempFolders();

const hourMs = 3_600_000;

const insertOf = (record: RunRecord): RunChange => ({ kind: "insert", id: record.id, record });
const removeOf = (id: string, state: RunState = "running") => ({ kind: "remove", id, state }) as const;

/** An embedded store, and records over it for a team that may have three. */
async function opened() {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(() => stores.close());
  const clock = createManualClock();
  const store = stores.runs;
  const problems: unknown[] = [];
  const records = createRunRecords({
    ...{ clock, store, isShared: false },
    recordsMaxOf: async () => 3,
    onWriteFailed: (cause) => problems.push(cause),
  });
  /** A run whose key is `key`. */
  const recordOf = (id: string, key = id): RunRecord =>
    runRecordOf({
      ...{ id, keyHash: `key ${key}`, teamId: "demo" },
      ...{ createTimeMs: clock.unixMs(), expireTimeMs: clock.unixMs() + 24 * hourMs },
    });
  const ended = ({ id, expireTimeMs }: RunRecord) => ({
    ...({ kind: "end", id, end: runEndOf("four", { expireTimeMs }) } as const),
  });
  return { clock, store, records, problems, recordOf, ended };
}

test("a team at its bound loses records of more than an hour, oldest first, and no younger one", async () => {
  const { clock, store, records, recordOf, ended } = await opened();
  for (const id of ["a", "b", "c"]) {
    expect(await records.insertOrFind(recordOf(id))).toBeUndefined();
    await store.write([ended(recordOf(id))]);
    clock.advance(1_000);
  }
  await expect(records.insertOrFind(recordOf("d"))).rejects.toMatchObject({
    reason: "UNAVAILABLE",
    message: expect.stringContaining("3 runs with an Idempotency-Key or in the background within an hour"),
  });
  // A repeat of a key that is kept needs no room.
  expect(await records.insertOrFind(recordOf("another", "a"))).toMatchObject({ id: "a" });
  clock.advance(hourMs - 3_000);
  expect(await records.insertOrFind(recordOf("d"))).toBeUndefined();
  expect(await store.find("a")).toBeUndefined();
  expect(await store.find("b")).toBeDefined();
  await expect(records.insertOrFind(recordOf("e"))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(await store.totals("demo")).toMatchObject({ records: 3 });
});

test("a key that was freed leaves room for another", async () => {
  const { records, recordOf } = await opened();
  for (const id of ["a", "b", "c"]) await records.insertOrFind(recordOf(id));
  await records.remove(recordOf("a"));
  expect(await records.insertOrFind(recordOf("d"))).toBeUndefined();
  await expect(records.insertOrFind(recordOf("e"))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
});

test("all records of a deleted team go, in bounded writes, and their room is free; other teams keep theirs", async () => {
  const { store, records, recordOf } = await opened();
  const removed: number[] = [];
  const deleteAll = store.deleteAll.bind(store);
  store.deleteAll = async (teamId, limit) => {
    const count = await deleteAll(teamId, limit);
    removed.push(count);
    return count;
  };
  const many = Array.from({ length: bounds.deletedAtOnce + 1 }, (_, n) => recordOf(`k${n}`));
  await store.write(many.map(insertOf));
  await records.insertOrFind({ ...recordOf("kept"), teamId: "other" });
  await expect(records.insertOrFind(recordOf("a"))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  await records.deleteOfTeam("demo", () => {});
  expect(removed).toEqual([bounds.deletedAtOnce, 1, 0]);
  for (const id of ["a", "b", "c"]) expect(await records.insertOrFind(recordOf(id))).toBeUndefined();
  expect(await store.find("kept")).toBeDefined();
});

test("a record that expired and is not swept yet is removed by the run that claims its key", async () => {
  const { clock, store, records, recordOf } = await opened();
  await records.insertOrFind(recordOf("a"));
  clock.advance(24 * hourMs);
  expect(await records.insertOrFind(recordOf("next", "a"))).toBeUndefined();
  expect(await store.find("a")).toBeUndefined();
  expect(await store.totals("demo")).toMatchObject({ records: 1 });
});

test("the room of a record that expired is free once, however many met it, and nothing is counted again", async () => {
  const { clock, store, recordOf, ended } = await opened();
  let counts = 0;
  const records = createRunRecords({
    ...{ clock, isShared: false, recordsMaxOf: async () => 4 },
    store: {
      ...store,
      totals: (teamId) => {
        counts += 1;
        return store.totals(teamId);
      },
    },
    onWriteFailed: (cause) => expect.unreachable(String(cause)),
  });
  for (const id of ["a", "b"]) await records.insertOrFind(recordOf(id));
  await store.write([ended(recordOf("b"))]);
  clock.advance(24 * hourMs);
  const met = await Promise.all([1, 2].map((n) => records.insertOrFind(recordOf(`next-${n}`, "a"))));
  expect(met.filter((found) => found === undefined)).toHaveLength(1);
  expect(await store.totals("demo")).toMatchObject({ records: 2 });
  for (const id of ["c", "d"]) expect(await records.insertOrFind(recordOf(id))).toBeUndefined();
  expect(await store.find("b")).toBeDefined();
  expect(await records.insertOrFind(recordOf("f"))).toBeUndefined();
  expect(await store.find("b")).toBeUndefined();
  expect(counts).toBe(1);
});

test("past the bytes of a team the oldest answers lose their texts, and their records stay", async () => {
  const { clock, store, recordOf, ended } = await opened();
  const room = createRecordQuota({ store, textsBytesMax: 10 });
  for (const id of ["a", "b", "c"]) {
    await room.takeText("demo", 4);
    const record = recordOf(id);
    await store.write([insertOf(record)]);
    await store.write([ended(record)]);
    expect((await store.totals("demo")).textBytes).toBeLessThanOrEqual(10);
    clock.advance(1);
  }
  const texts = await Promise.all(["a", "b", "c"].map((id) => store.textOf(id)));
  expect(texts).toEqual([null, "four", "four"]);
  expect(await store.find("a")).toMatchObject({ state: "succeeded", textBytes: null });
  // More than there is room for at all: nothing else is left, and the answer is kept alone.
  await room.takeText("demo", 11);
  expect(await store.totals("demo")).toMatchObject({ records: 3, textBytes: 0 });
});

test("a team's totals are counted in the store once, however many requests come", async () => {
  const { store } = await opened();
  let counts = 0;
  const totals = (teamId: string) => {
    counts += 1;
    return store.totals(teamId);
  };
  const counting = { ...store, totals };
  const room = createRecordQuota({ store: counting });
  const order = { recordsMax: 20, createdUntilMs: 0 };
  const taken = await Promise.all(Array.from({ length: 30 }, () => room.takeRecord("demo", order)));
  expect(taken.filter(Boolean).length).toBe(20);
  expect(counts).toBe(1);
  room.giveRecord("demo");
  expect(await room.takeRecord("demo", order)).toBe(true);
  expect(await room.takeRecord("demo", order)).toBe(false);
});

test("requests that need room at the same time remove no more than they need, and count it once", async () => {
  const { clock, store, recordOf, ended } = await opened();
  const count = 2 * runBounds.roomMadeAtOnce;
  const many = Array.from({ length: count }, (_, n) => recordOf(`k${n}`));
  await store.write(many.map(insertOf));
  await store.write(many.slice(0, -3).map((record) => ({ ...ended(record), end: runEndOf(null) })));
  // A store of another machine: removals at once find the same records.
  const removals: unknown[] = [];
  let atOnce = 0;
  const alone = async <T>(removal: () => Promise<T>): Promise<T> => {
    atOnce += 1;
    removals.push(atOnce);
    await turn();
    const removed = await removal();
    atOnce -= 1;
    return removed;
  };
  const far = {
    ...store,
    deleteOldest: (...asked: Parameters<typeof store.deleteOldest>) =>
      alone(() => store.deleteOldest(...asked)),
    dropTexts: (...asked: Parameters<typeof store.dropTexts>) => alone(() => store.dropTexts(...asked)),
  };
  const room = createRecordQuota({ store: far, textsBytesMax: 10 });
  const order = { recordsMax: count, createdUntilMs: clock.unixMs() };
  const taken = await Promise.all(Array.from({ length: 5 }, () => room.takeRecord("demo", order)));
  expect(taken).toEqual(Array(5).fill(true));
  expect(await store.totals("demo")).toMatchObject({ records: count - runBounds.roomMadeAtOnce });
  expect(removals).toEqual([1]);
  for (const record of many.slice(-3)) {
    await room.takeText("demo", 4);
    await store.write([ended(record)]);
  }
  await Promise.all([4, 4].map((bytes) => room.takeText("demo", bytes)));
  expect(await store.totals("demo")).toMatchObject({ textBytes: 0 });
  expect(removals).toEqual(removals.map(() => 1));
});

test("the changes of one turn share a write, and those of one id keep their order", async () => {
  const writes: RunChange[][] = [];
  const write = createRecordWriter({
    async write(changes) {
      writes.push([...changes]);
      return changes.map(() => undefined);
    },
  });
  const many = Array.from({ length: runBounds.recordChangesAtOnce }, (_, n) => removeOf(`k${n}`));
  const second = removeOf("k0", "failed");
  await Promise.all([...many, second, removeOf("last")].map(write));
  expect(writes.map((changes) => changes.length)).toEqual([many.length, 2]);
  expect(writes[1]).toEqual([second, removeOf("last")]);
});

test("a write that fails rejects its changes alone, and the next ones are written", async () => {
  let fails = true;
  const write = createRecordWriter({
    async write(changes) {
      if (fails) throw unavailable();
      return changes.map(() => undefined);
    },
  });
  await expect(write(removeOf("k"))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  fails = false;
  await expect(write(removeOf("k"))).resolves.toBeUndefined();
});

test("ends that the store can't take wait within their bytes: past them the oldest loses its text", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const written: RunChange[] = [];
  let fails = true;
  const retries = createRetryQueue(async (change) => {
    if (fails) throw unavailable();
    written.push(change);
    return undefined;
  });
  const half = "x".repeat(runBounds.unwrittenTextBytesMax / 2);
  const settled = ["a", "b", "c"].map((id) => retries.settle({ kind: "end", id, end: runEndOf(half) }));
  expect(retries.size()).toBe(3);
  await vi.advanceTimersByTimeAsync(2 * runBounds.recordRetryMs);
  expect(written).toEqual([]);
  fails = false;
  await vi.advanceTimersByTimeAsync(runBounds.recordRetryMs);
  expect(await Promise.all(settled)).toEqual([undefined, undefined, undefined]);
  const texts = written.map((change) => (change.kind === "end" ? change.end.text?.length : -1));
  expect(texts).toEqual([undefined, half.length, half.length]);
  expect(retries.size()).toBe(0);
});

test("while too many ends wait for the store, no run is taken on", async () => {
  const { store, recordOf } = await opened();
  const records = createRunRecords({
    ...{ clock: createManualClock(), isShared: false, recordsMaxOf: async () => 1e6 },
    store: { ...store, write: () => Promise.reject(unavailable()) },
    onWriteFailed: () => {},
  });
  onTestFinished(() => records.close());
  const refused = () => records.insertOrFind(recordOf("a")).catch((thrown: Refusal) => thrown.cause);
  // It may be there all the same, so its removal waits.
  for (let n = 0; n < runBounds.unwrittenRunsMax; n++) void records.remove(recordOf(`k${n}`));
  await expect.poll(async () => (await refused()) === undefined).toBe(true);
});

test("records that expired are swept, all of them in small batches, and their room is free", async () => {
  const { clock, store, recordOf } = await opened();
  const count = 2 * runBounds.recordSweepMax + 1;
  await store.write(Array.from({ length: count }, (_, n) => insertOf(recordOf(`k${n}`))));
  clock.advance(1);
  await store.write([insertOf(recordOf("young"))]);
  clock.advance(24 * hourMs - 1);
  const removed: number[] = [];
  const sweep = createRecordSweep({
    ...{ store, expiredMs: clock.unixMs, sweepMs: 1 },
    onRemoved: (_, { records }) => removed.push(records),
    onFailed: (cause) => expect.unreachable(String(cause)),
  });
  sweep.start();
  await expect.poll(() => removed.reduce((sum, records) => sum + records, 0)).toBe(count);
  await sweep.close();
  expect(Math.max(...removed)).toBe(runBounds.recordSweepMax);
  expect(await store.totals("demo")).toMatchObject({ records: 1 });
});

test("of records with large texts the embedded store removes a few in one write, and at least one", async () => {
  const { clock, store, recordOf } = await opened();
  const text = "x".repeat(bounds.removedTextBytesAtOnce / 2);
  const ids = ["a", "b", "c", "d", "e"];
  const larger = (id: string) => (id === "a" ? text + text + text : text);
  for (const id of ids) {
    const record = recordOf(id);
    await store.write([insertOf(record)]);
    await store.write([{ kind: "end", id, end: runEndOf(larger(id)) }]);
    clock.advance(1);
  }
  const sizes: number[] = [];
  for (let removed = -1; removed !== 0; sizes.push(removed)) removed = await store.deleteAll("demo", 100);
  expect(sizes).toEqual([1, 2, 2, 0]);
});

test("long kept texts are read one in a turn of the event loop, within the bytes of their team", async () => {
  const { longTextBytes } = runBounds;
  const bytes = new ByteBudget(16 * longTextBytes);
  const turns = countTurns();
  const readIn: number[] = [];
  const read = async (textBytes: number) => {
    const reservation = bytes.open("a");
    try {
      return await readKeptText({ reservation }, textBytes, async () => {
        readIn.push(turns());
        return "text";
      });
    } finally {
      reservation.release();
    }
  };
  await Promise.all([read(longTextBytes), read(longTextBytes), read(longTextBytes)]);
  expect(new Set(readIn).size).toBe(3);
  // Half of them is what a team may reserve, and a text reserves twice its bytes.
  const many = await Promise.allSettled(Array.from({ length: 5 }, () => read(longTextBytes)));
  expect(many.map(({ status }) => status)).toEqual([...Array(4).fill("fulfilled"), "rejected"]);
  readIn.length = 0;
  await Promise.all([read(1), read(1)]);
  expect(new Set(readIn).size).toBe(1);
  expect(bytes.bytes).toBe(0);
});
