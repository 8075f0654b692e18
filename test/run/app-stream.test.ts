import { describe, expect, test } from "vitest";
import { unlessAborted } from "#src/http/handler.ts";
import { fail, type Refusal } from "#src/refusal/refusal.ts";
import { appStream } from "#src/run/app-stream.ts";
import type { Run, StreamRunner } from "#src/run/runner.ts";
import { appOn, callerThatLeaves, runOf } from "../harness/app-backends.ts";

const app = appOn({ kind: "echo" }, { id: "talk" });

function open({ startMsMax = 60_000 }: { startMsMax?: number } = {}) {
  const script = scriptedStream();
  const caller = callerThatLeaves();
  const held = { slots: 0, watches: 0 };
  const rights: { lose: (refusal: Refusal) => void } = { lose: () => {} };
  const run = runOf(app, { signal: caller.signal });
  const stream = appStream(
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
    run,
    async () => {},
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
  await expect.poll(() => held).toEqual({ slots: 1, watches: 1 });
  begin();
  expect(await first).toMatchObject(started);
  const second = stream.next();
  await expect.poll(() => seen.asked).toBe(2);
  give("hello ");
  expect(await second).toMatchObject(delta("hello "));
  expect(held).toEqual({ slots: 1, watches: 1 });
  const last = stream.next();
  await expect.poll(() => seen.asked).toBe(3);
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
  give(text);
  expect(await first).toMatchObject(delta("a".repeat(65_535)));
  expect(await stream.next()).toMatchObject(delta(`ä${"b".repeat(65_534)}`));
  expect(await stream.next()).toMatchObject(delta("bb"));
  expect(seen.asked).toBe(2);
  void stream.next();
  await expect.poll(() => seen.asked).toBe(3);
});

test("what fails before the app has begun is thrown as it is, and frees the slot", async () => {
  const { stream, refuse, held } = open();
  refuse(fail("APP_UNREACHABLE"));
  await expect(stream.next()).rejects.toMatchObject({ reason: "APP_UNREACHABLE", appId: "talk" });
  expect(held).toEqual(free);
});

test.each([
  ["it begins after all", true],
  ["it fails after all", false],
])("an app that does not begin to answer is started after a while, and then %s", async (_, begins) => {
  const { stream, begin, refuse, give } = open({ startMsMax: 10 });
  expect(await stream.next()).toMatchObject(started);
  const next = stream.next();
  if (begins) {
    begin();
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
    await expect.poll(() => seen.runs.length).toBe(1);
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
    await expect.poll(() => seen.asked).toBe(2);
    endWith(opened);
    expect(seen.gone?.reason).toBe("DEADLINE_EXCEEDED");
    await expect(next).rejects.toMatchObject({ reason: "DEADLINE_EXCEEDED" });
    expect(held).toEqual(free);
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

test("a stream that is returned between two messages ends the app's call, and frees the slot", async () => {
  const { stream, begin, held, seen } = open();
  begin();
  await stream.next();
  expect(await stream.return()).toEqual(over);
  expect(seen.gone?.reason).toBe("CANCELLED");
  expect(held).toEqual(free);
  expect(await stream.next()).toEqual(over);
});

test("a stream that is returned before its first message never runs the app", async () => {
  const { stream, seen, held } = open();
  await stream.return();
  expect(await stream.next()).toEqual(over);
  expect([seen.runs.length, held]).toEqual([0, free]);
});

/**
 * A runner whose one stream the test scripts, to see exactly what is asked of it. The app begins to
 * answer with `begin`.
 */
function scriptedStream() {
  const steps: PromiseWithResolvers<string | undefined>[] = [];
  const step = (at: number) => {
    steps[at] ??= Promise.withResolvers();
    return steps[at];
  };
  let said = 0;
  const seen = { asked: 0, runs: [] as Run[], gone: undefined as Refusal | undefined };
  const runner: StreamRunner = async function* (run) {
    let isOver = false;
    seen.runs.push(run);
    run.signal.addEventListener("abort", () => {
      if (!isOver) seen.gone = run.signal.reason;
    });
    try {
      for (;;) {
        seen.asked += 1;
        const text = await unlessAborted(step(seen.asked - 1).promise, run.signal);
        if (text === undefined) return;
        yield text;
      }
    } finally {
      isOver = true;
    }
  };
  const give = (text: string | undefined) => step(said++).resolve(text);
  return {
    runner,
    seen,
    begin: () => give(""),
    give,
    end: () => give(undefined),
    /** Refuses, before the app has begun to answer or later. */
    refuse: (refusal: Refusal) => step(said++).reject(refusal),
  };
}
