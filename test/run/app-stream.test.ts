import { describe, expect, test } from "vitest";
import { fail, type Refusal } from "#src/refusal/refusal.ts";
import { AppStream } from "#src/run/app-stream.ts";
import type { Run, StreamRunner } from "#src/run/runner.ts";
import { appOn, callerThatLeaves, runOf } from "../harness/app-backends.ts";
import { soon } from "../harness/soon.ts";

const app = appOn({ kind: "echo" }, { id: "talk" });

function open({ startMsMax = 60_000, order }: { startMsMax?: number; order?: Promise<never> } = {}) {
  const script = scriptedStream();
  const caller = callerThatLeaves();
  const held = { slots: 0, watches: 0 };
  const rights: { lose: (refusal: Refusal) => void } = { lose: () => {} };
  const run = runOf(app, { signal: caller.signal });
  const stream = new AppStream(
    {
      stream: script.runner,
      startMsMax,
      slots: {
        acquire() {
          held.slots += 1;
          return () => {
            held.slots -= 1;
          };
        },
      },
      watchRights(_check, end) {
        held.watches += 1;
        rights.lose = end;
        return {
          check() {},
          stop() {
            held.watches -= 1;
          },
        };
      },
    },
    order ?? Promise.resolve({ run, checkRight: async () => {} }),
  );
  return { stream, caller, held, rights, ...script };
}

const value = (event: object) => ({ done: false, value: { event } });
const started = value({ case: "started", value: { runId: "run_1", appId: "talk" } });
const delta = (text: string) => value({ case: "delta", value: { text } });
const over = { done: true, value: undefined };
const free = { slots: 0, watches: 0 };

test("a stream is started once the app has begun to answer, gives its pieces, and holds its slot to the end", async () => {
  const { stream, begin, give, end, held, seen } = open();
  expect(held).toEqual(free);
  const first = stream.next();
  await soon(() => held).toEqual({ slots: 1, watches: 1 });
  begin();
  expect(await first).toMatchObject(started);
  const second = stream.next();
  await soon(() => seen.asked).toBe(1);
  give("hello ");
  expect(await second).toMatchObject(delta("hello "));
  expect(held).toEqual({ slots: 1, watches: 1 });
  const last = stream.next();
  await soon(() => seen.asked).toBe(2);
  end();
  expect(await last).toEqual(over);
  expect(held).toEqual(free);
  expect(seen.gone).toBeUndefined();
  expect(await stream.next()).toEqual(over);
});

test("the app is asked for a piece only when all of the one before was taken", async () => {
  const { stream, begin, give, seen } = open();
  begin();
  await stream.next();
  const text = `${"a".repeat(65_535)}ä${"b".repeat(65_536)}`;
  const first = stream.next();
  await soon(() => seen.asked).toBe(1);
  give(text);
  expect(await first).toMatchObject(delta("a".repeat(65_535)));
  expect(await stream.next()).toMatchObject(delta(`ä${"b".repeat(65_534)}`));
  expect(await stream.next()).toMatchObject(delta("bb"));
  expect(seen.asked).toBe(1);
  void stream.next();
  await soon(() => seen.asked).toBe(2);
});

test("what fails before the app has begun is thrown as it is, and frees the slot", async () => {
  const { stream, refuse, held } = open();
  refuse(fail("APP_UNREACHABLE"));
  await expect(stream.next()).rejects.toMatchObject({ reason: "APP_UNREACHABLE", appId: "talk" });
  expect(held).toEqual(free);
});

test("an order that is refused never takes a slot", async () => {
  const { stream, held, seen } = open({ order: Promise.reject(fail("APP_NOT_FOUND")) });
  await expect(stream.next()).rejects.toMatchObject({ reason: "APP_NOT_FOUND" });
  expect([held, seen.runs.length]).toEqual([free, 0]);
});

test.each([
  ["it begins after all", true],
  ["it fails after all", false],
])("an app that does not begin to answer is started after a while, and then %s", async (_, begins) => {
  const { stream, begin, refuse, give, seen } = open({ startMsMax: 10 });
  expect(await stream.next()).toMatchObject(started);
  const next = stream.next();
  if (begins) {
    begin();
    await soon(() => seen.asked).toBe(1);
    give("late");
    expect(await next).toMatchObject(delta("late"));
  } else {
    refuse(fail("APP_FAILED"));
    await expect(next).rejects.toMatchObject({ reason: "APP_FAILED" });
  }
});

describe.each([
  ["its caller is gone", ({ caller }: ReturnType<typeof open>) => caller.leave(fail("DEADLINE_EXCEEDED"))],
  ["a right is gone", ({ rights }: ReturnType<typeof open>) => rights.lose(fail("DEADLINE_EXCEEDED"))],
])("when %s", (_, endWith) => {
  test("a stream ends although the app has not begun to answer, and the app's call with it", async () => {
    const opened = open();
    const { stream, held, seen } = opened;
    const first = stream.next();
    await soon(() => seen.runs.length).toBe(1);
    endWith(opened);
    expect(seen.gone?.reason).toBe("DEADLINE_EXCEEDED");
    await expect(first).rejects.toMatchObject({ reason: "DEADLINE_EXCEEDED" });
    expect(held).toEqual(free);
  });

  test("a stream ends while it waits for the app", async () => {
    const opened = open();
    const { stream, begin, held, seen } = opened;
    begin();
    await stream.next();
    const next = stream.next();
    await soon(() => seen.asked).toBe(1);
    endWith(opened);
    expect(seen.gone?.reason).toBe("DEADLINE_EXCEEDED");
    await expect(next).rejects.toMatchObject({ reason: "DEADLINE_EXCEEDED" });
    expect(held).toEqual(free);
    await soon(() => seen.returned).toBe(1);
  });

  test("the app's call ends at once although nobody takes the next message, and the taker is told", async () => {
    const opened = open();
    const { stream, begin, held, seen } = opened;
    begin();
    await stream.next();
    endWith(opened);
    expect(seen.gone?.reason).toBe("DEADLINE_EXCEEDED");
    expect(held).toEqual(free);
    await expect(stream.next()).rejects.toMatchObject({ reason: "DEADLINE_EXCEEDED" });
    expect(await stream.next()).toEqual(over);
  });
});

test.each([
  ["before the app has begun", false],
  ["while a piece is awaited", true],
])("a stream that is returned %s ends the app's call at once", async (_, begun) => {
  const { stream, begin, held, seen } = open();
  const first = stream.next();
  await soon(() => seen.runs.length).toBe(1);
  if (begun) {
    begin();
    await first;
  }
  const next = begun ? stream.next() : first;
  if (begun) await soon(() => seen.asked).toBe(1);
  expect(await stream.return()).toEqual(over);
  expect(seen.gone?.reason).toBe("CANCELLED");
  expect(held).toEqual(free);
  expect(await next).toEqual(over);
  if (begun) await soon(() => seen.returned).toBe(1);
});

test("a stream that is returned before its first message never runs the app", async () => {
  const { stream, seen, held } = open();
  await stream.return();
  expect(await stream.next()).toEqual(over);
  expect([seen.runs.length, held]).toEqual([0, free]);
});

test("a stream that is returned before it is read leaves no rejection of its look-up that nobody handles", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  const { promise, reject } = Promise.withResolvers<never>();
  const { stream } = open({ order: promise });
  expect(await stream.return()).toEqual(over);
  reject(fail("APP_NOT_FOUND"));
  await new Promise((turned) => setImmediate(turned));
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
});

/**
 * A runner whose one stream the test scripts, to see exactly what is asked of it. The app begins to
 * answer with `begin`.
 */
function scriptedStream() {
  const begun = Promise.withResolvers<void>();
  const waiting: ((next: IteratorResult<string, undefined>) => void)[] = [];
  const failing: ((thrown: unknown) => void)[] = [];
  const seen = { asked: 0, returned: 0, runs: [] as Run[], gone: undefined as Refusal | undefined };
  const iterator = {
    next() {
      seen.asked += 1;
      return new Promise<IteratorResult<string, undefined>>((resolve, reject) => {
        waiting.push(resolve);
        failing.push(reject);
      });
    },
    return() {
      seen.returned += 1;
      return Promise.resolve({ done: true as const, value: undefined });
    },
  };
  const runner: StreamRunner = async (run) => {
    seen.runs.push(run);
    run.signal.addEventListener("abort", () => {
      seen.gone = run.signal.reason;
      begun.reject(run.signal.reason);
    });
    await begun.promise;
    return { [Symbol.asyncIterator]: () => iterator };
  };
  return {
    runner,
    seen,
    begin: () => begun.resolve(),
    /** Refuses before the app has begun to answer. */
    refuse: (refusal: unknown) => begun.reject(refusal),
    /** Answers the oldest question that waits. */
    give: (value: string) => waiting.shift()?.({ done: false, value }),
    end: () => waiting.shift()?.({ done: true, value: undefined }),
    breakOff: (thrown: unknown) => failing[seen.asked - 1]?.(thrown),
  };
}
