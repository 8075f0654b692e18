import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { fail, Refusal, unavailable } from "#src/refusal/refusal.ts";
import { createIdempotentRuns, type IdempotentRequest } from "#src/run/idempotency/idempotent-runs.ts";
import type { RunRecordStore } from "#src/run/idempotency/run-record-store.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { storesOfTier } from "../../harness/needs.ts";
import { openMongoForTest } from "../../harness/open-mongo.ts";
import { serviceCall } from "../../harness/service-call.ts";
import { newAppOf } from "../../harness/store-records.ts";
import { noBackgroundRuns } from "../no-background-runs.ts";

const timeoutMs = 10_000;
const record = { ...newAppOf({ id: "counted", timeoutMs }), version: 1 };
/** From the claim on: how long its owner may write what came of a run. */
const ownerMsMax = timeoutMs + runBounds.runSlackMs + runBounds.outcomeRetryMsMax;
/** What a run holds of the memory budget until its outcome is written, beside its text. */
const heldBytes = 100_000;

const folders = tempFolders();
const databases = createMongoDatabases();
afterAll(async () => {
  await databases.drop();
});

/** What a run that the test makes does: it may cut its instance off, and wait for the test. */
interface Plan {
  readonly isCutOff?: boolean;
  readonly until?: Promise<void>;
  readonly refusal?: Refusal;
}

class CountedBytes extends ByteBudget {
  /** How often a run gave back what it held. */
  given = 0;
  override give(teamId: string, bytes: number): void {
    if (bytes >= heldBytes) this.given += 1;
    super.give(teamId, bytes);
  }
}

/** An instance whose way to the store the test may cut. */
function instanceOn(records: RunRecordStore, app: { starts: number; plan: Plan }) {
  const clock = createManualClock();
  const bytes = new CountedBytes(Number.POSITIVE_INFINITY);
  const way = { isCut: false, writes: 0, waits: undefined as Promise<void> | undefined };
  const store: RunRecordStore = {
    ...records,
    async write(changes) {
      way.writes += 1;
      if (way.isCut) throw unavailable();
      await way.waits;
      return records.write(changes);
    },
  };
  const runs = createIdempotentRuns({
    ...{ clock, store, bytes, newRunId: () => `run-${randomUUID()}` },
    ...{ keptHours: 24, isShared: true, recordsMaxOf: async () => 10_000, onWriteFailed: () => {} },
    background: noBackgroundRuns,
    async run({ text, reservation }) {
      app.starts += 1;
      reservation.reserve(heldBytes);
      if (app.plan.isCutOff) way.isCut = true;
      await app.plan.until;
      if (app.plan.refusal) throw app.plan.refusal;
      return text.toUpperCase();
    },
  });
  onTestFinished(() => runs.close());
  return {
    ...{ clock, way, bytes },
    /** Resolves with the text of the answer, or the reason of the refusal. */
    async ask(order: IdempotentRequest): Promise<string> {
      try {
        return (await runs.run({ ...order }, serviceCall())).text;
      } catch (thrown) {
        return thrown instanceof Refusal ? thrown.reason : String(thrown);
      }
    },
    /** Resolves once the changes that wait were tried again. */
    async retried(): Promise<void> {
      const { writes } = way;
      await expect.poll(() => way.writes).toBeGreaterThan(writes);
    },
  };
}

const openers = storesOfTier<[string, () => Promise<Stores>]>(
  ["the embedded store", () => openSqliteStores({ dataDir: folders.create() })],
  ["MongoDB", () => openMongoForTest({ uri: databases.createUri() })],
);

describe.each(openers)("a repeat elsewhere of a run, on %s,", (_, open) => {
  describe("whose owner", () => {
    let stores: Stores;
    beforeAll(async () => {
      stores = await open();
    });
    afterAll(() => stores?.close());

    /** The clock of the other instance is ahead by all that is allowed. */
    function twoInstances(plan: Plan) {
      const app = { starts: 0, plan };
      const owner = instanceOn(stores.runRecords, app);
      const other = instanceOn(stores.runRecords, app);
      other.clock.stepWall(runBounds.clockSkewMsMax);
      const pass = (ms: number) => {
        owner.clock.advance(ms);
        other.clock.advance(ms);
      };
      const text = `hello ${randomUUID()}`;
      const order: IdempotentRequest = { teamId: "demo", keyId: "k", app: record, text, key: randomUUID() };
      return { app, owner, other, pass, order, answer: text.toUpperCase() };
    }

    test("is cut off, and comes back within the bound, is told 409 and then the answer", async () => {
      const { app, owner, other, pass, order, answer } = twoInstances({ isCutOff: true });
      expect(await owner.ask(order)).toBe(answer);
      pass(ownerMsMax - 1);
      await owner.retried();
      expect(await other.ask(order)).toBe("IDEMPOTENCY_KEY_IN_USE");
      expect(await owner.ask(order)).toBe(answer);
      expect(owner.bytes.bytes).toBeGreaterThanOrEqual(heldBytes);
      expect(owner.bytes.given).toBe(0);
      owner.way.isCut = false;
      await expect.poll(() => owner.bytes.bytes).toBe(0);
      pass(1);
      for (const each of [other, owner]) expect(await each.ask(order)).toBe(answer);
      expect([owner.bytes.given, app.starts]).toEqual([1, 1]);
    });

    test("is cut off for longer is told 409 and then 502, by both and for good", async () => {
      const { app, owner, other, pass, order, answer } = twoInstances({ isCutOff: true });
      expect(await owner.ask(order)).toBe(answer);
      pass(ownerMsMax - 1);
      expect(await other.ask(order)).toBe("IDEMPOTENCY_KEY_IN_USE");
      pass(1);
      expect(await other.ask(order)).toBe("APP_FAILED");
      // It can't ask the store, and does not tell what it has in memory.
      expect(await owner.ask(order)).toBe("UNAVAILABLE");
      await expect.poll(() => owner.bytes.bytes).toBe(0);
      owner.way.isCut = false;
      for (const each of [owner, other, owner]) expect(await each.ask(order)).toBe("APP_FAILED");
      expect([owner.bytes.given, app.starts]).toEqual([1, 1]);
    });

    test("writes just as the bound passes is told one of the two, and the memory is free once", async () => {
      const { app, owner, other, pass, order, answer } = twoInstances({ isCutOff: true });
      expect(await owner.ask(order)).toBe(answer);
      const waits = Promise.withResolvers<void>();
      onTestFinished(() => waits.resolve());
      owner.way.waits = waits.promise;
      owner.way.isCut = false;
      await owner.retried();
      pass(ownerMsMax);
      await expect.poll(() => owner.bytes.bytes).toBe(0);
      expect(await other.ask(order)).toBe("APP_FAILED");
      waits.resolve();
      for (const each of [owner, other]) expect(await each.ask(order)).toBe("APP_FAILED");
      expect([owner.bytes.bytes, owner.bytes.given, app.starts]).toEqual([0, 1, 1]);
    });

    test("stands still until the bound has passed is told 502, and so is its caller's own repeat", async () => {
      const end = Promise.withResolvers<void>();
      const { app, owner, other, pass, order } = twoInstances({ until: end.promise });
      const first = owner.ask(order);
      await expect.poll(() => app.starts).toBe(1);
      pass(ownerMsMax);
      expect(await other.ask(order)).toBe("APP_FAILED");
      end.resolve();
      expect(await first).toBe("IDEMPOTENCY_KEY_IN_USE");
      for (const each of [owner, other]) expect(await each.ask(order)).toBe("APP_FAILED");
      expect([owner.bytes.bytes, owner.bytes.given, app.starts]).toEqual([0, 1, 1]);
    });

    test("could not start its app, and says so too late, is told 502 for good", async () => {
      const refusal = fail("APP_UNREACHABLE");
      const { app, owner, other, pass, order } = twoInstances({ isCutOff: true, refusal });
      expect(await owner.ask(order)).toBe("APP_UNREACHABLE");
      expect([owner.bytes.bytes, owner.bytes.given]).toEqual([0, 1]);
      pass(ownerMsMax);
      expect(await other.ask(order)).toBe("APP_FAILED");
      owner.way.isCut = false;
      await owner.retried();
      for (const each of [owner, other]) expect(await each.ask(order)).toBe("APP_FAILED");
      expect([owner.bytes.given, app.starts]).toEqual([1, 1]);
    });

    test("could not start its app, and says so after all, starts it", async () => {
      const refusal = fail("APP_UNREACHABLE");
      const { app, owner, other, pass, order, answer } = twoInstances({ isCutOff: true, refusal });
      expect(await owner.ask(order)).toBe("APP_UNREACHABLE");
      expect(await other.ask(order)).toBe("IDEMPOTENCY_KEY_IN_USE");
      pass(ownerMsMax);
      owner.way.isCut = false;
      await owner.retried();
      app.plan = {};
      for (const each of [owner, other]) expect(await each.ask(order)).toBe(answer);
      expect(app.starts).toBe(2);
    });
  });
});
