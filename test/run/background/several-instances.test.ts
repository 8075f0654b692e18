import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { fail } from "#src/refusal/refusal.ts";
import { type BackgroundRequest, createBackgroundRuns } from "#src/run/background/background-runs.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import { createRunSlots } from "#src/run/run-slots.ts";
import type { Run } from "#src/run/runner.ts";
import { createWatchRights } from "#src/run/watch-rights.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { closedAtEnd, tempFolders } from "../../harness/closed-at-end.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { serviceCall } from "../../harness/service-call.ts";
import { newAppOf } from "../../harness/store-records.ts";

const folders = tempFolders();
const app = { ...newAppOf({ id: "counted" }), version: 1 };
/** Those that are registered now, and whether an instance can tell. */
let live: Set<string>;
let knowsOthers: boolean;
/** What the store does with the end of a run. */
let ends: "works" | "fails";

const stores = closedAtEnd(await openSqliteStores({ dataDir: folders.create() }));
beforeEach(() => {
  live = new Set();
  ends = "works";
  knowsOthers = true;
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => void vi.useRealTimers());

/** An instance of a fleet, whose app answers when it is released. */
function instance(owner: string, { alone = false } = {}) {
  const clock = createManualClock();
  const held = new Map<string, { answer: () => void; end: () => void }>();
  const told: string[] = [];
  const problems: unknown[] = [];
  live.add(owner);
  const runs = createBackgroundRuns({
    clock,
    store: {
      ...stores.backgroundRuns,
      async end(id, end) {
        if (ends === "fails") throw new Error("the store is away");
        return stores.backgroundRuns.end(id, end);
      },
    },
    run: ({ runId, signal }: Run) =>
      new Promise((resolve, reject) => {
        const end = () => held.delete(runId);
        signal.addEventListener("abort", () => {
          end();
          reject(signal.reason);
        });
        held.set(runId, {
          end: () => reject(fail("UNAVAILABLE", { mayHaveRun: true })),
          answer() {
            end();
            resolve("the answer");
          },
        });
      }),
    slots: createRunSlots({ clock, appRunsMax: 100, runsMax: 100 }),
    bytes: new ByteBudget(Number.POSITIVE_INFINITY),
    keptMs: 60_000,
    recordsMaxOf: async () => 10_000,
    owner: () => owner,
    liveOwners: alone ? undefined : () => (knowsOthers ? live : undefined),
    announceEnd: (id = "") => void told.push(id),
    watchRights: createWatchRights({ recheckMs: 1_000, mayAdmit: () => true }),
    onEnded: () => {},
    onWriteFailed: (cause) => void problems.push(cause),
  });
  return {
    ...{ clock, told, problems, held, runs },
    async start() {
      const order: BackgroundRequest = {
        ...{ runId: `run_${randomUUID()}`, teamId: owner, keyId: "k", app, text: "text" },
        checkRight: async () => {},
      };
      return (await runs.start(order, serviceCall())).id;
    },
  };
}

/** Each instance looks once. */
async function look(): Promise<void> {
  await vi.advanceTimersByTimeAsync(runBounds.ownerLookMs);
}

const stateOf = async (id: string) => {
  const record = await stores.backgroundRuns.find(id);
  return record?.error?.code ?? record?.state;
};

test("a run whose owner is gone is interrupted by another after two looks, and not after one", async () => {
  const [one, other] = [instance(randomUUID()), instance(randomUUID())];
  const id = await one.start();
  other.runs.begin();
  await look();
  live.delete((await stores.backgroundRuns.find(id))!.owner);
  await look();
  expect(await stateOf(id)).toBe("running");
  await look();
  await expect.poll(() => stateOf(id)).toBe("run_interrupted");
  // It comes back: the end stands.
  one.held.get(id)?.answer();
  await one.runs.idle();
  expect(await stateOf(id)).toBe("run_interrupted");
  await other.runs.close();
});

test("an instance that registers between two looks keeps its runs", async () => {
  const other = instance(randomUUID());
  other.runs.begin();
  const one = instance(randomUUID());
  const id = await one.start();
  const { owner } = (await stores.backgroundRuns.find(id))!;
  live.delete(owner);
  await look();
  live.add(owner);
  await look();
  await look();
  expect(await stateOf(id)).toBe("running");
  one.held.get(id)?.answer();
  await one.runs.idle();
  expect(await stateOf(id)).toBe("succeeded");
  await other.runs.close();
});

test("nobody is taken for gone while this instance can't tell", async () => {
  const other = instance(randomUUID());
  const one = instance(randomUUID());
  const id = await one.start();
  other.runs.begin();
  live.clear();
  await look();
  // Its lease was over in between, so what it had seen counts no more.
  knowsOthers = false;
  await look();
  knowsOthers = true;
  await look();
  expect(await stateOf(id)).toBe("running");
  await look();
  await expect.poll(() => stateOf(id)).toBe("run_interrupted");
  await other.runs.close();
  one.held.get(id)?.answer();
  await one.runs.idle();
});

test("a run that another instance cancels is told of, and its app's call is closed", async () => {
  const [one, other] = [instance(randomUUID()), instance(randomUUID())];
  const id = await one.start();
  const cancelled = await other.runs.cancel((await other.runs.find(id))!);
  expect(cancelled).toMatchObject({ state: "cancelled", error: { code: "run_cancelled" } });
  expect(other.told).toEqual([id]);
  expect(one.held.has(id)).toBe(true);
  one.runs.endedElsewhere(id);
  expect(one.held.has(id)).toBe(false);
  await one.runs.idle();
  expect(await stateOf(id)).toBe("run_cancelled");
});

test("an instance that is not told notices by itself that its run has an end", async () => {
  const [one, other] = [instance(randomUUID()), instance(randomUUID())];
  one.runs.begin();
  const [id, stays] = [await one.start(), await one.start()];
  await other.runs.cancelAll({ teamId: "none" });
  expect(other.told).toEqual([]);
  await other.runs.cancel((await other.runs.find(id))!);
  await look();
  await expect.poll(() => one.held.has(id)).toBe(false);
  expect(one.held.has(stays)).toBe(true);
  one.held.get(stays)?.answer();
  await one.runs.close();
});

test("an end that the store can't take is told only once it is written", async () => {
  const one = instance(randomUUID());
  const id = await one.start();
  const record = (await one.runs.find(id))!;
  let told: unknown;
  const call = { signal: new AbortController().signal, timeoutMs: () => undefined };
  const asked = { msMax: 50_000, call, checkRight: async () => {} };
  const waiting = one.runs.wait(record, asked).then((run) => {
    told = run;
  });
  ends = "fails";
  one.held.get(id)?.answer();
  await expect.poll(() => one.problems.length).toBe(1);
  expect(told).toBeUndefined();
  ends = "works";
  await waiting;
  expect(told).toMatchObject({ id, state: "succeeded", textBytes: "the answer".length });
  expect(one.problems.length).toBe(1);
});

test("a process that closes while the store is away ends, and the next one interrupts its run", async () => {
  const owner = randomUUID();
  const one = instance(owner, { alone: true });
  const id = await one.start();
  ends = "fails";
  one.held.get(id)?.end();
  await one.runs.close();
  ends = "works";
  expect(await stateOf(id)).toBe("running");
  const next = instance(randomUUID(), { alone: true });
  await next.runs.open();
  expect(await stateOf(id)).toBe("run_interrupted");
});

test("a run that takes too long to be written down is not begun, and leaves nothing", async () => {
  const one = instance(randomUUID());
  const order: BackgroundRequest = {
    ...{ runId: `run_${randomUUID()}`, teamId: "slow", keyId: "k", app, text: "text" },
    checkRight: async () => one.clock.advance(runBounds.claimMsMax + 1),
  };
  await expect(one.runs.start(order, serviceCall())).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect([one.held.size, await stateOf(order.runId)]).toEqual([0, undefined]);
  const lost: BackgroundRequest = {
    ...{ runId: `run_${randomUUID()}`, teamId: "slow", keyId: "k", app, text: "text" },
    checkRight: () => Promise.reject(fail("REVOKED_API_KEY", { metadata: { revoke_time: "now" } })),
  };
  await expect(one.runs.start(lost, serviceCall())).rejects.toMatchObject({ reason: "REVOKED_API_KEY" });
  expect([one.held.size, await stateOf(lost.runId)]).toEqual([0, undefined]);
});
