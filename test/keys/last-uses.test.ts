import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { createLastUses, type LastUses } from "#src/keys/last-uses.ts";

const open: LastUses[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const lastUses of open.splice(0)) await lastUses.close();
});

/** Last uses over a store in memory that never sets a time back, as its port demands. */
function createTestUses(options: { flushMs?: number; keysMax?: number } = {}) {
  const stored = new Map<string, number>();
  const writes: Map<string, number>[] = [];
  const errors: unknown[] = [];
  let before: () => Promise<void> = async () => {};
  const lastUses = createLastUses({
    store: {
      async recordUses(times) {
        writes.push(new Map(times));
        await before();
        for (const [id, ms] of times) stored.set(id, Math.max(ms, stored.get(id) ?? 0));
      },
    },
    flushMs: 60_000,
    onError: (cause) => errors.push(cause),
    ...options,
  });
  open.push(lastUses);
  return {
    lastUses,
    stored,
    writes,
    errors,
    beforeWrite(then: () => Promise<void>) {
      before = then;
    },
  };
}

test("all keys used since the last write are written in one, each with its latest time", async () => {
  const { lastUses, writes } = createTestUses();
  lastUses.record("a", 5);
  lastUses.record("b", 6);
  lastUses.record("a", 8);
  lastUses.record("a", 7);
  await lastUses.flush();
  expect(writes).toEqual([
    new Map([
      ["a", 8],
      ["b", 6],
    ]),
  ]);
});

test("nothing is written where nothing was used", async () => {
  const { lastUses, writes } = createTestUses();
  lastUses.record("a", 5);
  await lastUses.flush();
  await lastUses.flush();
  expect(writes.length).toBe(1);
});

test("a caller that read the store just before a write still sees the use just after it", async () => {
  const { lastUses, stored } = createTestUses();
  lastUses.record("a", 5);
  const readBefore = stored.get("a") ?? null;
  await lastUses.flush();
  expect(lastUses.lastUseTimeMs("a", readBefore)).toBe(5);
});

test("two flushes never run at once, and uses during one are written by the next", async () => {
  const { lastUses, writes, beforeWrite } = createTestUses();
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  beforeWrite(() => held);
  lastUses.record("a", 5);
  const first = lastUses.flush();
  lastUses.record("a", 6);
  const second = lastUses.flush();
  expect(writes.length).toBe(1);
  expect(lastUses.lastUseTimeMs("a", null)).toBe(6);
  release();
  await Promise.all([first, second]);
  expect(writes.length).toBe(1);
  await lastUses.flush();
  expect(writes[1]).toEqual(new Map([["a", 6]]));
});

test("the uses of a failed write go into the next one, unless the key was used again since", async () => {
  const { lastUses, writes, errors, stored, beforeWrite } = createTestUses();
  const failure = new Error("store");
  beforeWrite(async () => {
    lastUses.record("b", 9);
    throw failure;
  });
  lastUses.record("a", 5);
  lastUses.record("b", 6);
  await lastUses.flush();
  expect(errors).toEqual([failure]);
  expect(lastUses.lastUseTimeMs("a", null)).toBe(5);
  beforeWrite(async () => {});
  await lastUses.flush();
  expect(writes.length).toBe(2);
  expect(Object.fromEntries(stored)).toEqual({ a: 5, b: 9 });
});

test("while the store is out of reach, at most the bound of keys wait, and the newest stay", async () => {
  const { lastUses, stored, beforeWrite } = createTestUses({ keysMax: 2 });
  beforeWrite(async () => {
    throw new Error("store");
  });
  for (const [n, id] of ["a", "b", "c"].entries()) {
    lastUses.record(id, n);
    await lastUses.flush();
  }
  beforeWrite(async () => {});
  await lastUses.flush();
  expect(Object.fromEntries(stored)).toEqual({ b: 1, c: 2 });
});

test("once started it writes again and again by itself", async () => {
  const { lastUses, beforeWrite } = createTestUses({ flushMs: 1 });
  lastUses.start();
  for (const unixMs of [5, 6]) {
    const { promise: written, resolve } = Promise.withResolvers<void>();
    beforeWrite(async () => resolve());
    lastUses.record("a", unixMs);
    await written;
  }
});

test("closing waits for the running write and writes what came after it", async () => {
  const { lastUses, stored, beforeWrite } = createTestUses();
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  beforeWrite(() => held);
  lastUses.record("a", 5);
  void lastUses.flush();
  lastUses.record("b", 6);
  const closed = lastUses.close();
  release();
  await closed;
  expect(Object.fromEntries(stored)).toEqual({ a: 5, b: 6 });
});

test("whatever fails, a key's last use never goes back, and in the end no use is lost", async () => {
  const step = fc.record({
    kind: fc.constantFrom("record", "record", "flush", "failing flush"),
    id: fc.constantFrom("a", "b", "c"),
    unixMs: fc.nat(1_000),
  });
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), fc.array(step, { maxLength: 40 }), async (s, steps) => {
      const { lastUses, stored, beforeWrite } = createTestUses();
      const latest = new Map<string, number>();
      const shown = new Map<string, number>();
      const flushes: Promise<void>[] = [];
      for (const { kind, id, unixMs } of steps) {
        if (kind === "record") {
          lastUses.record(id, unixMs);
          latest.set(id, Math.max(unixMs, latest.get(id) ?? 0));
        } else {
          beforeWrite(async () => {
            await s.schedule(Promise.resolve());
            if (kind === "failing flush") throw new Error("store");
          });
          flushes.push(lastUses.flush());
        }
        if (s.count() > 0 && unixMs % 2 === 0) await s.waitOne();
        const time = lastUses.lastUseTimeMs(id, stored.get(id) ?? null);
        expect(time).toBe(latest.get(id) ?? null);
        shown.set(id, time ?? 0);
      }
      await s.waitFor(Promise.all(flushes));
      beforeWrite(async () => {});
      await lastUses.close();
      expect(Object.fromEntries(stored)).toEqual(Object.fromEntries(latest));
    }),
  );
});
