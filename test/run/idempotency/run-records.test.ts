import { setImmediate as turn } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import { createRecordQuota } from "#src/run/idempotency/record-quota.ts";
import { createRecordWriter } from "#src/run/idempotency/record-writer.ts";
import type { RunClaim, RunRecordChange } from "#src/run/idempotency/run-record-store.ts";
import { createRecordSweep, createRunRecords, readKeptText } from "#src/run/idempotency/run-records.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { countTurns } from "../../harness/counted-turns.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

const folders = tempFolders();

const hourMs = 3_600_000;

/** An embedded store, and records over it for a team that may have three. */
async function opened() {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(() => stores.close());
  const clock = createManualClock();
  const store = stores.runRecords;
  const problems: unknown[] = [];
  const records = createRunRecords({
    ...{ clock, store, keptMs: 24 * hourMs },
    recordsMaxOf: async () => 3,
    onWriteFailed: (cause) => problems.push(cause),
  });
  const claimOf = (id: string): RunClaim => ({
    ...{ id, teamId: "demo", fingerprint: "f", runId: `run-of-${id}`, state: "running" },
    ...{ createTimeMs: clock.unixMs(), runUntilMs: clock.unixMs() + 1 },
    expireTimeMs: clock.unixMs() + 24 * hourMs,
  });
  return { clock, store, records, problems, claimOf };
}

test("a team at its bound loses records of more than an hour, oldest first, and no younger one", async () => {
  const { clock, store, records, claimOf } = await opened();
  for (const id of ["a", "b", "c"]) {
    expect(await records.claim(claimOf(id))).toBeUndefined();
    clock.advance(1_000);
  }
  await expect(records.claim(claimOf("d"))).rejects.toMatchObject({
    reason: "UNAVAILABLE",
    message: expect.stringContaining("3 Idempotency-Keys within an hour"),
  });
  // A repeat of a key that is kept needs no room.
  expect(await records.claim({ ...claimOf("a"), runId: "another" })).toMatchObject({ runId: "run-of-a" });
  clock.advance(hourMs - 3_000);
  expect(await records.claim(claimOf("d"))).toBeUndefined();
  expect(await store.find("a")).toBeUndefined();
  expect(await store.find("b")).toBeDefined();
  await expect(records.claim(claimOf("e"))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(await store.totals("demo")).toMatchObject({ records: 3 });
});

test("a key that was freed leaves room for another", async () => {
  const { records, claimOf } = await opened();
  for (const id of ["a", "b", "c"]) await records.claim(claimOf(id));
  await records.release(claimOf("a"), () => {});
  expect(await records.claim(claimOf("d"))).toBeUndefined();
  await expect(records.claim(claimOf("e"))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
});

test("all records of a deleted team go, in bounded writes, and their room is free; other teams keep theirs", async () => {
  const { store, records, claimOf } = await opened();
  const removed: number[] = [];
  const deleteAll = store.deleteAll.bind(store);
  store.deleteAll = async (teamId, limit) => {
    const count = await deleteAll(teamId, limit);
    removed.push(count);
    return count;
  };
  const claims = Array.from({ length: bounds.deletedAtOnce + 1 }, (_, n) => claimOf(`k${n}`));
  await store.write(claims.map((claim) => ({ kind: "claim", id: claim.id, claim })));
  await records.claim({ ...claimOf("kept"), teamId: "other" });
  await expect(records.claim(claimOf("a"))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  await records.deleteOfTeam("demo", () => {});
  expect(removed).toEqual([bounds.deletedAtOnce, 1, 0]);
  for (const id of ["a", "b", "c"]) expect(await records.claim(claimOf(id))).toBeUndefined();
  expect(await store.find("kept")).toBeDefined();
});

test("a record that expired and is not swept yet is removed by the run that claims its key", async () => {
  const { clock, store, records, claimOf } = await opened();
  await records.claim(claimOf("a"));
  clock.advance(24 * hourMs);
  const found = await records.claim({ ...claimOf("a"), runId: "next" });
  expect(found).toMatchObject({ runId: "run-of-a" });
  await records.removeExpired(found!);
  expect(await records.claim({ ...claimOf("a"), runId: "next" })).toBeUndefined();
  expect(await store.totals("demo")).toMatchObject({ records: 1 });
});

test("the room of a record that expired is free once, however many met it, and nothing is counted again", async () => {
  const { clock, store, claimOf } = await opened();
  let counts = 0;
  const records = createRunRecords({
    ...{ clock, keptMs: 24 * hourMs, recordsMaxOf: async () => 4 },
    store: {
      ...store,
      totals: (teamId) => {
        counts += 1;
        return store.totals(teamId);
      },
    },
    onWriteFailed: (cause) => expect.unreachable(String(cause)),
  });
  for (const id of ["a", "b"]) await records.claim(claimOf(id));
  clock.advance(24 * hourMs);
  const met = await Promise.all([1, 2].map((n) => records.claim({ ...claimOf("a"), runId: `next-${n}` })));
  await Promise.all(met.map((found) => records.removeExpired(found!)));
  expect(await store.totals("demo")).toMatchObject({ records: 1 });
  for (const id of ["c", "d", "e"]) expect(await records.claim(claimOf(id))).toBeUndefined();
  expect(await store.find("b")).toBeDefined();
  expect(await records.claim(claimOf("f"))).toBeUndefined();
  expect(await store.find("b")).toBeUndefined();
  expect(counts).toBe(1);
});

test("past the bytes of a team the oldest answers lose their texts, and their records stay", async () => {
  const { clock, store, claimOf } = await opened();
  const room = createRecordQuota({ store, textsBytesMax: 10 });
  for (const id of ["a", "b", "c"]) {
    await room.takeText("demo", 4);
    const claim = claimOf(id);
    await store.write([{ kind: "claim", id, claim }]);
    const { runId, expireTimeMs } = claim;
    await store.write([{ kind: "end", id, runId, state: "done", text: "four", textBytes: 4, expireTimeMs }]);
    expect((await store.totals("demo")).textBytes).toBeLessThanOrEqual(10);
    clock.advance(1);
  }
  const texts = await Promise.all(["a", "b", "c"].map((id) => store.textOf(id, `run-of-${id}`)));
  expect(texts).toEqual([null, "four", "four"]);
  expect(await store.find("a")).toMatchObject({ state: "done", textBytes: 0 });
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
  const { clock, store, claimOf } = await opened();
  const count = 2 * runBounds.roomMadeAtOnce;
  const claims = Array.from({ length: count }, (_, n) => claimOf(`k${n}`));
  await store.write(claims.map((claim) => ({ kind: "claim", id: claim.id, claim })));
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
  const kept = claims.slice(-3);
  const ends = kept.map(({ id, runId, expireTimeMs }) => ({
    ...({ kind: "end", id, runId, state: "done", text: "four", textBytes: 4, expireTimeMs } as const),
  }));
  for (const end of ends) {
    await room.takeText("demo", 4);
    await store.write([end]);
  }
  await Promise.all([4, 4].map((bytes) => room.takeText("demo", bytes)));
  expect(await store.totals("demo")).toMatchObject({ textBytes: 0 });
  expect(removals).toEqual(removals.map(() => 1));
});

test("the changes of one turn share a write, and those of one id keep their order", async () => {
  const writes: RunRecordChange[][] = [];
  const write = createRecordWriter({
    async write(changes) {
      writes.push([...changes]);
      return changes.map(() => undefined);
    },
  });
  const release = (id: string, runId: string) => ({ kind: "release", id, runId, state: "running" }) as const;
  const many = Array.from({ length: runBounds.recordChangesAtOnce }, (_, n) => release(`k${n}`, "r"));
  await Promise.all([...many, release("k0", "second"), release("last", "r")].map(write));
  expect(writes.map((changes) => changes.length)).toEqual([many.length, 2]);
  expect(writes[1]).toEqual([release("k0", "second"), release("last", "r")]);
});

test("a write that fails rejects its changes alone, and the next ones are written", async () => {
  let fails = true;
  const write = createRecordWriter({
    async write(changes) {
      if (fails) throw unavailable();
      return changes.map(() => undefined);
    },
  });
  const release = { kind: "release", id: "k", runId: "r", state: "running" } as const;
  await expect(write(release)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  fails = false;
  await expect(write(release)).resolves.toBeUndefined();
});

test("records that expired are swept, all of them in small batches, and their room is free", async () => {
  const { clock, store, claimOf } = await opened();
  const count = 2 * runBounds.recordSweepMax + 1;
  const claims = Array.from({ length: count }, (_, n) => claimOf(`k${n}`));
  await store.write(claims.map((claim) => ({ kind: "claim", id: claim.id, claim })));
  clock.advance(1);
  await store.write([{ kind: "claim", id: "young", claim: claimOf("young") }]);
  clock.advance(24 * hourMs - 1);
  const removed: number[] = [];
  const sweep = createRecordSweep({
    ...{ clock, store, sweepMs: 1 },
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
  const { clock, store, claimOf } = await opened();
  const text = "x".repeat(bounds.removedTextBytesAtOnce / 2);
  const ids = ["a", "b", "c", "d", "e"];
  const larger = (id: string) => (id === "a" ? text + text + text : text);
  for (const id of ids) {
    const claim = claimOf(id);
    const { runId, expireTimeMs } = claim;
    const end = { text: larger(id), textBytes: larger(id).length, expireTimeMs };
    await store.write([{ kind: "claim", id, claim }]);
    await store.write([{ kind: "end", id, runId, state: "done", ...end }]);
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
