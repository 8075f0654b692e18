import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { createGate } from "#src/limit/gate.ts";

const unavailable = expect.objectContaining({ reason: "UNAVAILABLE", retryAfterMs: 1_000 });
const longMs = 30_000;

/** A load behind a gate of its own. */
function gated<T>(
  load: (id: string) => Promise<T>,
  { loadsMax, waitMsMax, waitersMax }: { loadsMax: number; waitMsMax: number; waitersMax: number },
): (id: string) => Promise<T> {
  const gate = createGate({ slots: () => loadsMax, waitMsMax, room: { size: 0, sizeMax: waitersMax } });
  return (id) => gate.run(() => load(id));
}

afterEach(() => {
  vi.useRealTimers();
});

test("at most as many loads run at once as are allowed, and all get their turn in order", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 0, max: 20 }),
      async (s, loadsMax, loads) => {
        let running = 0;
        const started: string[] = [];
        const load = gated(
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

test("one that waited too long is refused without its load having started, and the slot is not lost", async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<string>();
  const started: string[] = [];
  const load = gated(
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

test("one that finds the room full is refused at once, and others may wait again when it has emptied", async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<string>();
  const load = gated((id) => (id === "slow" ? held : Promise.resolve(id)), {
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

test("nobody overtakes those in line, also when there are more slots than there were", async () => {
  let slots = 1;
  const gate = createGate({ slots: () => slots, waitMsMax: longMs, room: { size: 0, sizeMax: 10 } });
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const started: string[] = [];
  const work = (name: string) =>
    gate.run(async () => {
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

test("one that got its turn leaves no timer behind", async () => {
  vi.useFakeTimers();
  const gate = createGate({ slots: () => 1, waitMsMax: longMs, room: { size: 0, sizeMax: 10 } });
  const both = [gate.run(async () => "a"), gate.run(async () => "b")];
  expect(vi.getTimerCount()).toBe(1);
  expect(await Promise.all(both)).toEqual(["a", "b"]);
  expect(vi.getTimerCount()).toBe(0);
});

test("work that throws before it returns a promise gives its slot back", async () => {
  let idleTimes = 0;
  const gate = createGate({
    slots: () => 1,
    waitMsMax: longMs,
    room: { size: 0, sizeMax: 1 },
    onIdle: () => idleTimes++,
  });
  const broken = gate.run(() => {
    throw new Error("broken");
  });
  await expect(broken).rejects.toThrow("broken");
  expect(idleTimes).toBe(1);
  expect(await gate.run(async () => "fine")).toBe("fine");
});
