import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { fail, Refusal } from "#src/refusal/refusal.ts";
import type { RunChange, RunStore } from "#src/run/kept/run-store.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { closedAtEnd, tempFolders } from "../../harness/closed-at-end.ts";
import { app, cutOff, keptInstance, startApp } from "./kept-instances.ts";

const folders = tempFolders();
const hourMs = 3_600_000;
/** The kind of changes that the store refuses now. */
let failing: RunChange["kind"] | undefined;

const { runs: store } = closedAtEnd(await openSqliteStores({ dataDir: folders.create() }));
const faulty: RunStore = {
  ...store,
  async write(changes) {
    if (changes.some(({ kind }) => kind === failing)) throw new Error("the store is away");
    return store.write(changes);
  },
};

beforeEach(() => {
  failing = undefined;
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => void vi.useRealTimers());

/** Instances of a fleet that know each other, or one alone. */
function instances(count: number, options: Parameters<typeof keptInstance>[2] = {}) {
  const backend = startApp();
  const all = Array.from({ length: count }, () => keptInstance(faulty, backend, options));
  const live = new Set(all.map(({ ways }) => ways.owner!));
  for (const { ways } of all) ways.live = live;
  onTestFinished(async () => {
    failing = undefined;
    backend.end();
    await Promise.all(all.map(({ runs }) => runs.close()));
  });
  return { backend, live, all, one: all[0]!, other: all[1]! };
}

/** Each instance looks once. */
const look = () => vi.advanceTimersByTimeAsync(runBounds.ownerLookMs);
const retried = () => vi.advanceTimersByTimeAsync(runBounds.recordRetryMs);
const stateOf = async (id: string) => {
  const record = await store.find(id);
  return record?.error?.code ?? record?.state;
};
const fresh = (word = "hello") => ({ text: `${word} ${randomUUID()}`, key: randomUUID() });

describe("a key", () => {
  test("stands for one run of one team's app, whichever of the team's API keys sends it", async () => {
    const { backend, one } = instances(1);
    const order = fresh();
    const answer = order.text.toUpperCase();
    expect(await one.ask(order)).toBe(answer);
    expect(await one.ask({ ...order, keyId: "another" })).toBe(`${answer}*`);
    expect(await one.ask({ ...order, teamId: "acme" })).toBe(answer);
    expect(await one.ask({ ...order, app: { ...app, id: "other" } })).toBe(answer);
    expect(await one.ask({ ...order, key: "another" })).toBe(answer);
    expect(backend.starts(order.text)).toBe(4);
  });

  test("tells another team nothing: it may send it with another text", async () => {
    const { one } = instances(1);
    const order = fresh();
    await one.ask(order);
    expect(await one.ask({ ...order, text: "bye" })).toBe("IDEMPOTENCY_KEY_REUSED");
    expect(await one.ask({ ...order, text: "bye", teamId: "acme" })).toBe("BYE");
  });

  test("is free again after a run that was certainly not started", async () => {
    const { backend, one } = instances(1);
    const order = fresh("wait");
    const first = one.ask(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    backend.release(order.text, fail("APP_BUSY"));
    expect(await first).toBe("APP_BUSY");
    const second = one.ask(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    backend.release(order.text);
    expect(await second).toBe(order.text.toUpperCase());
  });

  test.each([
    ["was cut off", cutOff(), "RUN_INTERRUPTED"],
    ["met a fault of Keyrun's", new Error("a fault"), "INTERNAL"],
    ["failed", fail("APP_FAILED", { mayHaveRun: true }), "APP_FAILED"],
    ["was late", fail("APP_TIMEOUT", { mayHaveRun: true }), "APP_TIMEOUT"],
  ])("never starts another run after one that %s: each repeat is told so", async (_, thrown, reason) => {
    const { backend, one, other } = instances(2);
    const order = fresh("wait");
    const first = one.ask(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    backend.release(order.text, thrown);
    expect([await first, await one.ask(order), await other.ask(order)]).toEqual([
      reason,
      `${reason}*`,
      `${reason}*`,
    ]);
    expect(backend.starts(order.text)).toBe(1);
  });

  test("has the words of an app that refused for as long as it stands for the run", async () => {
    const { backend, one } = instances(1);
    const order = fresh("wait");
    const started = await one.start(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    backend.release(order.text, fail("APP_REFUSED", { problem: "No address ☀.", mayHaveRun: true }));
    await started.output?.catch(() => {});
    await store.dropTexts("demo", { bytes: 1e9, limit: 1_000 });
    const { record } = await one.start(order);
    expect(record.error).toEqual({ code: "app_refused", message: "No address ☀.", status: 422 });
  });

  test("is kept for its hours by the clock of every instance, and is then a new one", async () => {
    const { backend, one, other } = instances(2);
    const order = fresh();
    await one.ask(order);
    other.clock.stepWall(runBounds.clockSkewMsMax);
    other.clock.advance(24 * hourMs - 1);
    expect(await other.ask(order)).toBe(`${order.text.toUpperCase()}*`);
    other.clock.advance(1);
    expect(await other.ask(order)).toBe(order.text.toUpperCase());
    expect(backend.starts(order.text)).toBe(2);
  });

  test("stands for a run in the background as for one that was waited for", async () => {
    const { backend, one } = instances(1);
    const order = fresh("wait");
    const { record } = await one.start({ ...order, listed: true });
    expect((await one.start(order)).record.id).toBe(record.id);
    backend.release(order.text, fail("APP_BUSY"));
    await one.runs.idle();
    // Nothing had reached the app: the run has failed, and its key is free.
    expect(await stateOf(record.id)).toBe("app_busy");
    expect((await one.start({ ...order, listed: true })).record.id).not.toBe(record.id);
    backend.release(order.text);
  });
});

describe("a run whose owner is gone", () => {
  test("is interrupted by another after two looks, and not after one; its own end comes too late", async () => {
    const { backend, live, one, other } = instances(2);
    const order = fresh("wait");
    const first = one.ask(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    other.runs.begin();
    await look();
    live.delete(one.ways.owner!);
    await look();
    expect(await other.ask(order)).toBe("running");
    await look();
    await expect.poll(() => other.ask(order)).toBe("RUN_INTERRUPTED*");
    backend.release(order.text);
    expect(await first).toBe("RUN_INTERRUPTED");
    expect(await one.ask(order)).toBe("RUN_INTERRUPTED*");
    expect(backend.starts(order.text)).toBe(1);
  });

  test("is its own no more when it comes back under a new name, and its app's call is closed", async () => {
    const { backend, live, one } = instances(1);
    const text = fresh("wait").text;
    const id = await one.startListed(text);
    one.runs.begin();
    live.clear();
    live.add("a new name");
    one.ways.owner = "a new name";
    await look();
    await look();
    await expect.poll(() => stateOf(id)).toBe("run_interrupted");
    await expect.poll(() => backend.isHeld(text)).toBe(false);
  });

  test("is left to an instance that registers between two looks", async () => {
    const { backend, live, one, other } = instances(2);
    const text = fresh("wait").text;
    other.runs.begin();
    const id = await one.startListed(text);
    live.delete(one.ways.owner!);
    await look();
    live.add(one.ways.owner!);
    await look();
    await look();
    expect(await stateOf(id)).toBe("running");
    backend.release(text);
    await one.runs.idle();
    expect(await stateOf(id)).toBe("succeeded");
  });

  test("is not taken for gone while an instance can't tell", async () => {
    const { live, one, other } = instances(2);
    const id = await one.startListed(fresh("wait").text);
    other.runs.begin();
    live.clear();
    await look();
    // Its lease was over in between, so what it had seen counts no more.
    other.ways.live = undefined;
    await look();
    other.ways.live = live;
    await look();
    expect(await stateOf(id)).toBe("running");
    await look();
    await expect.poll(() => stateOf(id)).toBe("run_interrupted");
  });

  test("is interrupted by the next start of a process that is alone", async () => {
    const { backend, one } = instances(1, { alone: true });
    const order = fresh("wait");
    const first = one.ask(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    failing = "end";
    backend.release(order.text, cutOff());
    await first;
    // The store is away, and the process ends all the same.
    await one.runs.close();
    failing = undefined;
    const next = keptInstance(store, backend, { alone: true });
    onTestFinished(() => next.runs.close());
    await next.runs.open();
    expect(await next.ask(order)).toBe("RUN_INTERRUPTED*");
    expect(backend.starts(order.text)).toBe(1);
  });
});

describe("a run in the background", () => {
  test("that another instance cancels is told of, and its app's call is closed", async () => {
    const { backend, one, other } = instances(2);
    const { text } = fresh("wait");
    const id = await one.startListed(text);
    const cancelled = await other.runs.cancel((await other.runs.find(id))!);
    expect(cancelled).toMatchObject({ state: "cancelled", error: { code: "run_cancelled" } });
    expect(cancelled).toEqual({ ...(await store.find(id)), text: null });
    expect(other.announced).toEqual([id]);
    expect(backend.isHeld(text)).toBe(true);
    one.runs.endedElsewhere(id);
    expect(backend.isHeld(text)).toBe(false);
    await one.runs.idle();
    expect([await stateOf(id), one.ended]).toEqual(["run_cancelled", ["cancelled"]]);
  });

  test("has its end noticed by its own instance that is not told", async () => {
    const { backend, one, other } = instances(2);
    one.runs.begin();
    const [text, stays] = [fresh("wait").text, fresh("wait").text];
    const id = await one.startListed(text);
    await one.startListed(stays);
    await other.runs.cancelAll({ teamId: "none" });
    expect(other.announced).toEqual([]);
    await other.runs.cancel((await other.runs.find(id))!);
    await look();
    await expect.poll(() => backend.isHeld(text)).toBe(false);
    expect(backend.isHeld(stays)).toBe(true);
    backend.release(stays);
  });

  test("is cancelled with its app or team, and a run that somebody waits for goes on", async () => {
    const { backend, one } = instances(1);
    const [waited, text] = [fresh("wait"), fresh("wait").text];
    const first = one.ask({ ...waited, teamId: "both" });
    await expect.poll(() => backend.isHeld(waited.text)).toBe(true);
    const { record } = await one.start({ text, teamId: "both", listed: true });
    await one.runs.cancelAll({ teamId: "both" });
    expect(await stateOf(record.id)).toBe("run_cancelled");
    expect([backend.isHeld(text), backend.isHeld(waited.text)]).toEqual([false, true]);
    backend.release(waited.text);
    expect(await first).toBe(waited.text.toUpperCase());
  });
});

describe("a store that fails as a run ends", () => {
  test("holds up no caller that began the run, and one who reads it learns the end once it is written", async () => {
    const { backend, one } = instances(1);
    const order = fresh("wait");
    const { record, output } = await one.start(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    let told: unknown;
    const call = { signal: new AbortController().signal, timeoutMs: () => undefined };
    const waiting = one.runs.wait(record, { msMax: 50_000, call, checkRight: async () => {} });
    const reading = waiting.then((run) => {
      told = run;
    });
    failing = "end";
    backend.release(order.text);
    expect(await output).toEqual({ text: order.text.toUpperCase() });
    await retried();
    expect([one.problems.length, told, await one.ask(order)]).toEqual([1, undefined, "running"]);
    failing = undefined;
    await retried();
    await reading;
    expect(told).toMatchObject({ id: record.id, state: "succeeded", textBytes: order.text.length });
    expect(one.bytes.bytes).toBe(0);
  });

  test("has its caller wait where others may give the run its end, and that one stands", async () => {
    const { backend, live, one, other } = instances(2);
    const order = fresh("wait");
    const first = one.ask(order);
    await expect.poll(() => backend.isHeld(order.text)).toBe(true);
    // It is cut off from the others, too: its lease is over.
    const { owner } = one.ways;
    one.ways.owner = undefined;
    one.ways.live = undefined;
    failing = "end";
    backend.release(order.text);
    await retried();
    other.runs.begin();
    live.delete(owner!);
    await look();
    await look();
    await expect.poll(() => other.ask(order)).toBe("RUN_INTERRUPTED*");
    failing = undefined;
    await retried();
    expect(await first).toBe("RUN_INTERRUPTED");
    expect(backend.starts(order.text)).toBe(1);
  });
});

describe("a run that may not begin", () => {
  test("has its key free and its slot back, and its caller does not wait while the store fails", async () => {
    const { backend, one } = instances(1, { slots: 1 });
    const order = { ...fresh(), listed: true };
    const checkRight = async () => {
      throw fail("REVOKED_API_KEY");
    };
    failing = "remove";
    expect(await one.ask({ ...order, checkRight })).toBe("REVOKED_API_KEY");
    expect(one.problems).toHaveLength(1);
    // Its slot is free at once, and its key as soon as the store takes it.
    await one.start({ ...fresh(), listed: true });
    expect(await one.ask(order)).toBe("running");
    failing = undefined;
    await retried();
    await expect.poll(() => one.ask(order)).toBe(order.text.toUpperCase());
    expect([one.bytes.bytes, backend.starts(order.text)]).toEqual([0, 1]);
  });

  test.each([
    ["the slots are taken", { slots: 0 }, "APP_BUSY"],
    ["others may take its instance for gone", { slots: 1 }, "UNAVAILABLE"],
  ])("as %s, leaves nothing", async (_, options, reason) => {
    const { backend, one } = instances(1, options);
    const runId = `run_${randomUUID()}`;
    const checkRight = async () => {
      one.ways.owner = "a new name";
    };
    const refused = one.start({ ...fresh(), runId, listed: true, checkRight });
    await expect(refused).rejects.toMatchObject({ reason });
    expect(await store.find(runId)).toBeUndefined();
    expect([one.bytes.bytes, backend.starts("")]).toEqual([0, 0]);
  });

  test("is not tried while its instance has no lease, or the record can't be written", async () => {
    const { backend, one } = instances(1);
    const order = fresh();
    one.ways.owner = undefined;
    expect(await one.ask(order)).toBe("UNAVAILABLE");
    one.ways.owner = "one";
    failing = "insert";
    expect(await one.ask(order)).toBe("UNAVAILABLE");
    failing = undefined;
    await retried();
    expect(await one.ask(order)).toBe(order.text.toUpperCase());
    expect(backend.starts(order.text)).toBe(1);
  });
});

test("a repeat of a run that is under way here writes nothing, and is told its end as it is written", async () => {
  const { backend, one } = instances(1);
  const order = fresh("wait");
  const first = one.ask(order);
  await expect.poll(() => backend.isHeld(order.text)).toBe(true);
  // The store would refuse the repeat.
  failing = "insert";
  const { record, output } = await one.start(order);
  expect([record.state, output]).toEqual(["running", undefined]);
  const call = { signal: new AbortController().signal, timeoutMs: () => undefined };
  const waiting = one.runs.wait(record, { msMax: 50_000, call, checkRight: async () => {} });
  backend.release(order.text);
  expect(await first).toBe(order.text.toUpperCase());
  const { text, ...told } = (await waiting)!;
  expect([text, told.state]).toEqual([order.text.toUpperCase(), "succeeded"]);
  expect(told).toEqual(await store.find(record.id));
  failing = undefined;
});

test("those who wait are woken by the removal of a run that did not begin", async () => {
  const { one } = instances(1);
  const order = { ...fresh(), listed: true };
  const right = Promise.withResolvers<void>();
  const first = one.start({ ...order, checkRight: () => right.promise });
  await expect.poll(() => one.ask(order)).toBe("running");
  const { record } = await one.start(order);
  const call = { signal: new AbortController().signal, timeoutMs: () => undefined };
  const waiting = one.runs.wait(record, { msMax: 50_000, call, checkRight: async () => {} });
  right.reject(fail("REVOKED_API_KEY"));
  await expect(first).rejects.toBeInstanceOf(Refusal);
  expect(await waiting).toBeUndefined();
});
