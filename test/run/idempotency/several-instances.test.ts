import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { Refusal } from "#src/refusal/refusal.ts";
import { createIdempotentRuns, type IdempotentRequest } from "#src/run/idempotency/idempotent-runs.ts";
import { createRecordQuota } from "#src/run/idempotency/record-quota.ts";
import type { RunClaim } from "#src/run/idempotency/run-record-store.ts";
import { createRecordSweep } from "#src/run/idempotency/run-records.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { figures } from "../../harness/campaigns.ts";
import { createManualClock, type ManualClock } from "../../harness/manual-clock.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { openMongoForTest } from "../../harness/open-mongo.ts";
import { serviceCall } from "../../harness/service-call.ts";
import { newAppOf } from "../../harness/store-records.ts";
import { createTempFolders } from "../../harness/temp-folders.ts";
import { noBackgroundRuns } from "../no-background-runs.ts";

const timeoutMs = 10_000;
const app = { ...newAppOf({ id: "counted", timeoutMs }), version: 1 };

/** The app of all instances. */
function startApp() {
  const starts = new Map<string, number>();
  const held = new Map<string, () => void>();
  return {
    starts: (text: string) => starts.get(text) ?? 0,
    async run({ text }: { text: string }) {
      starts.set(text, (starts.get(text) ?? 0) + 1);
      if (text.startsWith("wait")) await new Promise<void>((resolve) => held.set(text, resolve));
      return text.toUpperCase();
    },
    release: (text: string) => held.get(text)?.(),
  };
}

function instance(
  stores: Stores,
  { clock, run }: { clock: ManualClock; run: Parameters<typeof createIdempotentRuns>[0]["run"] },
) {
  return createIdempotentRuns({
    ...{
      clock,
      store: stores.runRecords,
      run,
      bytes: new ByteBudget(Number.POSITIVE_INFINITY),
      newRunId: () => `run-${randomUUID()}`,
    },
    ...{ keptHours: 24, isShared: true, recordsMaxOf: async () => 10_000 },
    background: noBackgroundRuns,
    onWriteFailed: (cause) => expect.unreachable(String(cause)),
  });
}

const orderOf = (text: string, key = text.replaceAll(" ", "-")): IdempotentRequest => ({
  ...{ teamId: "demo", keyId: "k", app, text, key },
});
const reasonOf = (thrown: unknown) => (thrown instanceof Refusal ? thrown.reason : String(thrown));

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

  function twoInstances() {
    const backend = startApp();
    const clocks = [createManualClock(), createManualClock()] as const;
    const [one, other] = clocks.map((clock) => instance(stores, { clock, run: backend.run }));
    return { backend, clocks, one: one!, other: other! };
  }

  test("a key under way on another is in use, and once it has ended both tell the same answer", async () => {
    const { backend, one, other } = twoInstances();
    const text = `wait ${randomUUID()}`;
    const first = one.run(orderOf(text), serviceCall());
    await expect.poll(() => backend.starts(text)).toBe(1);
    await expect(other.run(orderOf(text), serviceCall())).rejects.toMatchObject({
      reason: "IDEMPOTENCY_KEY_IN_USE",
      retryAfterMs: 1_000,
    });
    const another = other.run(orderOf("another text", orderOf(text).key), serviceCall());
    await expect(another).rejects.toMatchObject({ reason: "IDEMPOTENCY_KEY_REUSED" });
    backend.release(text);
    const { runId } = await first;
    expect(await other.run(orderOf(text), serviceCall())).toEqual({
      ...{ runId, text: text.toUpperCase(), isReplayed: true },
    });
    expect(backend.starts(text)).toBe(1);
  });

  test("a run whose instance died is in use as long as it could end the run by any clock, and is never started again", async () => {
    const { backend, clocks, one, other } = twoInstances();
    const text = `wait ${randomUUID()}`;
    void one.run(orderOf(text), serviceCall()).catch(() => {});
    await expect.poll(() => backend.starts(text)).toBe(1);
    const [, clock] = clocks;
    const repeat = () => other.run(orderOf(text), serviceCall()).catch(reasonOf);
    // The clock of the other instance is ahead by all that is allowed, and the app takes its time.
    clock.stepWall(runBounds.clockSkewMsMax);
    clock.advance(timeoutMs + runBounds.runSlackMs + runBounds.outcomeRetryMsMax - 1);
    expect(await repeat()).toBe("IDEMPOTENCY_KEY_IN_USE");
    clock.advance(1);
    const refusal = await other.run(orderOf(text), serviceCall()).catch((thrown: unknown) => thrown);
    expect(refusal).toMatchObject({ reason: "APP_FAILED", isReplayed: true });
    expect(backend.starts(text)).toBe(1);
  });

  test("a key is kept for its whole time by the clock of every instance", async () => {
    const { backend, clocks, one, other } = twoInstances();
    const text = `hello ${randomUUID()}`;
    await one.run(orderOf(text), serviceCall());
    clocks[1].stepWall(runBounds.clockSkewMsMax);
    clocks[1].advance(24 * 3_600_000 - 1);
    expect(await other.run(orderOf(text), serviceCall())).toMatchObject({ isReplayed: true });
    clocks[1].advance(1);
    expect(await other.run(orderOf(text), serviceCall())).toMatchObject({ isReplayed: false });
    expect(backend.starts(text)).toBe(2);
  });

  const keys = 40;
  test(`the same key from eight callers of two instances starts the app once, for ${keys} keys`, async () => {
    const { backend, one, other } = twoInstances();
    let requests = 0;
    let inUse = 0;
    /** Repeats until there is an answer, as a client that retries does. */
    async function answerOf(runs: typeof one, text: string): Promise<string> {
      for (;;) {
        requests += 1;
        const answer = await runs.run(orderOf(text), serviceCall()).catch(reasonOf);
        if (typeof answer !== "string") return answer.runId;
        expect(answer).toBe("IDEMPOTENCY_KEY_IN_USE");
        inUse += 1;
        await sleep(5);
      }
    }
    const wrong: string[] = [];
    const round = async () => {
      const text = `hello ${randomUUID()}`;
      const callers = Array.from({ length: 8 }, (_, n) => answerOf(n % 2 === 0 ? one : other, text));
      const runIds = new Set(await Promise.all(callers));
      if (backend.starts(text) !== 1 || runIds.size !== 1) {
        wrong.push(`${text}: ${backend.starts(text)} starts, ${runIds.size} answers`);
      }
    };
    for (let done = 0; done < keys; done += 4) await Promise.all([round(), round(), round(), round()]);
    figures(`${keys} keys`, { requests, "met a key in use": inUse, "started twice": wrong.length });
    expect(wrong).toEqual([]);
    expect(inUse).toBeGreaterThan(0);
  });

  test("two sweeps at once remove what has expired, and nothing else", async () => {
    const clock = createManualClock();
    const count = 3 * runBounds.recordSweepMax;
    const claims = Array.from({ length: count }, (_, n) => claimOf(`swept-${n}`, clock));
    const young = { ...claimOf("young", clock), expireTimeMs: clock.unixMs() + 2 };
    for (let n = 0; n < count; n += 200) await claimAll(stores, claims.slice(n, n + 200));
    await claimAll(stores, [young]);
    clock.advance(1);
    const sweeps = [1, 2].map(() =>
      createRecordSweep({
        ...{ clock, store: stores.runRecords, onRemoved: () => {}, sweepMs: 5 },
        onFailed: (cause) => expect.unreachable(String(cause)),
      }),
    );
    for (const sweep of sweeps) sweep.start();
    await expect
      .poll(() => stores.runRecords.totals("swept"), { timeout: 60_000 })
      .toMatchObject({ records: 1 });
    for (const sweep of sweeps) await sweep.close();
    expect(await stores.runRecords.find("young")).toBeDefined();
  });
});

function claimOf(id: string, clock: ManualClock): RunClaim {
  const nowMs = clock.unixMs();
  const times = { createTimeMs: nowMs, runUntilMs: nowMs + 1, expireTimeMs: nowMs + 1 };
  return { ...{ id, teamId: "swept", fingerprint: "f", runId: `run-of-${id}`, state: "running" }, ...times };
}

async function claimAll(stores: Stores, claims: readonly RunClaim[]): Promise<void> {
  await stores.runRecords.write(claims.map((claim) => ({ kind: "claim", id: claim.id, claim })));
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
    const store = stores.runRecords;
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
      if (isThere) await claimAll(stores, [claimOf(`k${n++}`, clock)]);
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
    await claimAll(stores, [claimOf("kept", clock)]);
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
      const { runId, expireTimeMs } = claimOf(id, clock);
      await rooms[place]!.takeText("swept", 16);
      await claimAll(stores, [claimOf(id, clock)]);
      await store.write([
        { kind: "end", id, runId, state: "done", text: "x".repeat(16), textBytes: 16, expireTimeMs },
      ]);
      clock.advance(runBounds.recountMsMin);
      await sleep(0);
    };
    for (let n = 0; n < 8; n++) await end(n % 2, `t${n}`);
    expect((await store.totals("swept")).textBytes).toBeLessThanOrEqual(64 + 16);
    await store.dropTexts("swept", { bytes: 1_000, limit: 100 });
    await end(0, "last");
    await end(1, "very-last");
    expect(await store.textOf("last", "run-of-last")).not.toBeNull();
  });
});
