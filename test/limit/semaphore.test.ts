import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { createSemaphore } from "#src/limit/semaphore.ts";

const unavailable = expect.objectContaining({ reason: "UNAVAILABLE", retryAfterMs: 1_000 });
const longMs = 30_000;

/** Puts a load behind a semaphore of its own. */
function withSemaphore<T>(
  load: (id: string) => Promise<T>,
  { loadsMax, waitMsMax, waitersMax }: { loadsMax: number; waitMsMax: number; waitersMax: number },
): (id: string) => Promise<T> {
  const semaphore = createSemaphore({
    slots: () => loadsMax,
    waitMsMax,
    waiters: { size: 0, sizeMax: waitersMax },
  });
  return (id) => semaphore.run(() => load(id));
}

afterEach(() => {
  vi.useRealTimers();
});

test("no more loads than allowed run at once, and all run in order", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 0, max: 20 }),
      async (s, loadsMax, loads) => {
        let running = 0;
        const started: string[] = [];
        const load = withSemaphore(
          async (id) => {
            started.push(id);
            expect(++running).toBeLessThanOrEqual(loadsMax);
            await s.schedule(Promise.resolve());
            running--;
            if (id.endsWith("3")) throw new Error(id);
            return id;
          },
          { loadsMax, waitMsMax: longMs, waitersMax: 20 },
        );
        const ids = Array.from({ length: loads }, (_, n) => `${n}`);
        const outcomes = Promise.allSettled(ids.map(load));
        expect(running).toBe(Math.min(loads, loadsMax));
        await s.waitFor(outcomes);
        expect(started).toEqual(ids);
        expect((await outcomes).map(({ status }) => status)).toEqual(
          ids.map((id) => (id.endsWith("3") ? "rejected" : "fulfilled")),
        );
      },
    ),
  );
});

test("a load that waits too long is refused and never starts, and no slot is lost", async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<string>();
  const started: string[] = [];
  const load = withSemaphore(
    (id) => {
      started.push(id);
      return id === "slow" ? held : Promise.resolve(id);
    },
    { loadsMax: 1, waitMsMax: 5, waitersMax: 10 },
  );
  const slow = load("slow");
  await expect(load("late")).rejects.toEqual(unavailable);
  release("done");
  expect(await slow).toBe("done");
  expect(await load("next")).toBe("next");
  expect(started).toEqual(["slow", "next"]);
});

test("a load is refused at once where too many wait, and later ones may wait again", async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<string>();
  const load = withSemaphore((id) => (id === "slow" ? held : Promise.resolve(id)), {
    loadsMax: 1,
    waitMsMax: longMs,
    waitersMax: 2,
  });
  const slow = load("slow");
  const waiting = [load("a"), load("b")];
  await expect(load("c")).rejects.toEqual(unavailable);
  release("done");
  expect(await Promise.all([slow, ...waiting])).toEqual(["done", "a", "b"]);
  expect(await Promise.all([load("d"), load("e"), load("f")])).toEqual(["d", "e", "f"]);
});

test("no later work overtakes the queue, also when the number of slots has grown", async () => {
  let slots = 1;
  const semaphore = createSemaphore({
    slots: () => slots,
    waitMsMax: longMs,
    waiters: { size: 0, sizeMax: 10 },
  });
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const started: string[] = [];
  const work = (name: string) =>
    semaphore.run(async () => {
      started.push(name);
      await held;
    });
  const all = [work("first"), work("second")];
  slots = 3;
  all.push(work("third"));
  release();
  await Promise.all(all);
  expect(started).toEqual(["first", "second", "third"]);
});

test("work that got its slot leaves no timer behind", async () => {
  vi.useFakeTimers();
  const semaphore = createSemaphore({ slots: () => 1, waitMsMax: longMs, waiters: { size: 0, sizeMax: 10 } });
  const both = [semaphore.run(async () => "a"), semaphore.run(async () => "b")];
  expect(vi.getTimerCount()).toBe(1);
  expect(await Promise.all(both)).toEqual(["a", "b"]);
  expect(vi.getTimerCount()).toBe(0);
});

test("work that throws before it returns a promise frees its slot", async () => {
  let idleTimes = 0;
  const semaphore = createSemaphore({
    slots: () => 1,
    waitMsMax: longMs,
    waiters: { size: 0, sizeMax: 1 },
    onIdle: () => idleTimes++,
  });
  const broken = semaphore.run(() => {
    throw new Error("broken");
  });
  await expect(broken).rejects.toThrow("broken");
  expect(idleTimes).toBe(1);
  expect(await semaphore.run(async () => "fine")).toBe("fine");
});
