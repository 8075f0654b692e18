import { createHash } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { fail, type Refusal } from "#src/refusal/refusal.ts";
import { createIdempotentRuns, type IdempotentRequest } from "#src/run/idempotency/idempotent-runs.ts";
import type { RunRecordStore } from "#src/run/idempotency/run-record-store.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { serviceCall } from "../../harness/service-call.ts";
import { newAppOf } from "../../harness/store-records.ts";
import { noBackgroundRuns } from "../no-background-runs.ts";

const folders = tempFolders();

const app = { ...newAppOf({ id: "counted", timeoutMs: 10_000 }), version: 1 };
const hourMs = 3_600_000;

/**
 * Runs of an app that ends with `ends.by`, where it is set, and after `ends.held`. A claim takes
 * `claimMs`. `others` has another instance on the same store.
 */
async function startRuns({ isShared = false, claimMs = 0 } = {}) {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(() => stores.close());
  const clock = createManualClock();
  const slow: RunRecordStore = {
    ...stores.runRecords,
    async write(changes) {
      const found = await stores.runRecords.write(changes);
      if (changes.some(({ kind }) => kind === "claim")) clock.advance(claimMs);
      return found;
    },
  };
  return {
    ...instanceOn(slow, clock, isShared),
    others: () => instanceOn(stores.runRecords, clock, isShared),
    /** The record of the order that `ask` sends by itself. */
    find() {
      const scoped = JSON.stringify(["demo", app.id, "order-1"]);
      return stores.runRecords.find(createHash("sha256").update(scoped).digest("base64url"));
    },
    dropTexts: () => stores.runRecords.dropTexts("demo", { bytes: 1, limit: 10 }),
  };
}

function instanceOn(store: RunRecordStore, clock: ReturnType<typeof createManualClock>, isShared: boolean) {
  const ends: { by: Refusal | Error | undefined; held: Promise<void> | undefined } = {
    by: undefined,
    held: undefined,
  };
  const starts: string[] = [];
  const words: string[] = [];
  let ids = 0;
  const runs = createIdempotentRuns({
    ...{ clock, store, isShared, bytes: new ByteBudget(Number.POSITIVE_INFINITY) },
    newRunId: () => `run-${++ids}`,
    ...{
      keptHours: 24,
      recordsMaxOf: async () => 100,
      background: noBackgroundRuns,
      onWriteFailed: (cause: unknown) => expect.unreachable(String(cause)),
    },
    async run({ teamId, app: { id }, text }) {
      starts.push(`${teamId}/${id}/${text}`);
      await ends.held;
      if (ends.by) throw ends.by;
      return text.toUpperCase();
    },
  });
  onTestFinished(() => runs.close());
  /** The answer, with a star if it is a replay; or the reason of the refusal. */
  async function ask(order: Partial<IdempotentRequest> = {}): Promise<string> {
    try {
      const whole = { teamId: "demo", keyId: "k", app, text: "hi", key: "order-1", ...order };
      const { text, isReplayed } = await runs.run(whole, serviceCall());
      return `${text}${isReplayed ? "*" : ""}`;
    } catch (thrown) {
      words.push((thrown as Refusal).message);
      return (thrown as Refusal).reason;
    }
  }
  return { clock, ends, starts, words, ask };
}

test("a key stands for one run of one team's app, whichever of the team's API keys sends it", async () => {
  const { starts, ask } = await startRuns();
  expect(await ask()).toBe("HI");
  expect(await ask({ keyId: "another" })).toBe("HI*");
  expect(await ask({ teamId: "acme" })).toBe("HI");
  expect(await ask({ app: { ...app, id: "other" } })).toBe("HI");
  expect(await ask({ key: "order-2" })).toBe("HI");
  expect(starts).toEqual(["demo/counted/hi", "acme/counted/hi", "demo/other/hi", "demo/counted/hi"]);
});

test("another team learns nothing of a key: it may send it with another text", async () => {
  const { ask } = await startRuns();
  expect(await ask()).toBe("HI");
  expect(await ask({ text: "bye" })).toBe("IDEMPOTENCY_KEY_REUSED");
  expect(await ask({ teamId: "acme", text: "bye" })).toBe("BYE");
});

test("a run that was certainly not started frees its key", async () => {
  const { ends, starts, ask } = await startRuns();
  ends.by = fail("APP_BUSY");
  expect(await ask()).toBe("APP_BUSY");
  ends.by = undefined;
  expect(await ask()).toBe("HI");
  expect(starts).toHaveLength(2);
});

test.each([
  ["was cut off", fail("UNAVAILABLE", { mayHaveRun: true }), "UNAVAILABLE"],
  ["met a fault of Keyrun's", new Error("a fault"), "INTERNAL"],
])("a run that %s may have started, so its key never starts another", async (_, by, reason) => {
  const { clock, ends, starts, ask } = await startRuns();
  ends.by = by;
  expect(await ask()).toBe(reason);
  ends.by = undefined;
  expect(await ask()).toBe("IDEMPOTENCY_KEY_IN_USE");
  clock.advance(hourMs);
  expect(await ask()).toBe("APP_FAILED");
  expect(starts).toHaveLength(1);
});

test.each(["APP_FAILED", "APP_TIMEOUT"] as const)(
  "a run that ended with %s is told so again",
  async (reason) => {
    const { ends, starts, ask } = await startRuns();
    ends.by = fail(reason);
    expect([await ask(), await ask()]).toEqual([reason, reason]);
    expect(starts).toHaveLength(1);
  },
);

test("a repeat of a run that its app refused gets the words, from the store and from memory, on every instance", async () => {
  const { ends, starts, ask, words, others } = await startRuns({ isShared: true });
  const held = Promise.withResolvers<void>();
  ends.held = held.promise;
  ends.by = fail("APP_REFUSED", { problem: "No address ☀.", mayHaveRun: true });
  const both = [ask(), ask()];
  held.resolve();
  expect([...(await Promise.all(both)), await ask()]).toEqual(Array(3).fill("APP_REFUSED"));
  const other = others();
  expect(await other.ask()).toBe("APP_REFUSED");
  expect([...words, ...other.words]).toEqual(Array(4).fill("No address ☀."));
  expect(starts).toHaveLength(1);
});

test("the words of an app that refused are kept as those of a failed run", async () => {
  const { ends, ask, find } = await startRuns();
  ends.by = fail("APP_REFUSED", { problem: "No address.", mayHaveRun: true });
  await ask();
  expect(await find()).toMatchObject({ state: "app_failed", textBytes: "No address.".length });
});

test("an app that refused has failed, once its words are no longer kept", async () => {
  const { ends, starts, ask, dropTexts } = await startRuns();
  ends.by = fail("APP_REFUSED", { problem: "No address.", mayHaveRun: true });
  await ask();
  await dropTexts();
  expect(await ask()).toBe("APP_FAILED");
  expect(starts).toHaveLength(1);
});

test("a key is kept for its hours, and is then a new one", async () => {
  const { clock, starts, ask } = await startRuns();
  await ask();
  clock.advance(24 * hourMs - 1);
  expect(await ask()).toBe("HI*");
  clock.advance(1);
  expect(await ask()).toBe("HI");
  expect(starts).toHaveLength(2);
});

test("a repeat on another instance is told that the run failed once its owner can't end it any more, and not before", async () => {
  const { clock, ends, ask, others } = await startRuns({ isShared: true });
  const held = Promise.withResolvers<void>();
  ends.held = held.promise;
  onTestFinished(() => held.resolve());
  const first = ask();
  const other = others();
  const ownerMs =
    app.timeoutMs + runBounds.runSlackMs + runBounds.outcomeRetryMsMax + runBounds.clockSkewMsMax;
  await expect.poll(() => other.ask()).toBe("IDEMPOTENCY_KEY_IN_USE");
  clock.advance(ownerMs - 1);
  expect(await other.ask()).toBe("IDEMPOTENCY_KEY_IN_USE");
  clock.advance(1);
  expect(await other.ask()).toBe("APP_FAILED");
  // Its owner may end it now, and changes nothing any more.
  held.resolve();
  expect(await first).toBe("IDEMPOTENCY_KEY_IN_USE");
  expect([await ask(), other.starts]).toEqual(["APP_FAILED", []]);
});

test("a claim that took too long starts nothing, and frees its key", async () => {
  const inTime = await startRuns({ claimMs: runBounds.claimMsMax });
  expect(await inTime.ask()).toBe("HI");
  const late = await startRuns({ claimMs: runBounds.claimMsMax + 1 });
  expect(await late.ask()).toBe("UNAVAILABLE");
  expect(late.starts).toEqual([]);
  expect(await late.others().ask()).toBe("HI");
});

test("so many repeats wait for a run as may, and the next one is refused at once", async () => {
  const { ends, starts, ask } = await startRuns();
  const held = Promise.withResolvers<void>();
  ends.held = held.promise;
  onTestFinished(() => held.resolve());
  const first = ask();
  await expect.poll(() => starts.length).toBe(1);
  const waiting = Array.from({ length: runBounds.runWaitersMax }, () => ask());
  expect(await ask()).toBe("IDEMPOTENCY_KEY_IN_USE");
  held.resolve();
  expect(await first).toBe("HI");
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(["HI*"]));
});
