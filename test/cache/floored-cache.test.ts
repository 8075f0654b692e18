import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createFlooredCache } from "#src/cache/floored-cache.ts";
import { createManualClock } from "../harness/manual-clock.ts";

interface Doc {
  readonly id: string;
  readonly version: number;
}

const unavailable = expect.objectContaining({ reason: "UNAVAILABLE", retryAfterMs: 1_000 });

/** A cache over a store in memory, whose reads can be held back. */
function createTestCache(options: { entriesMax?: number; absentMax?: number } = {}) {
  const clock = createManualClock();
  const docs = new Map<string, Doc>();
  const held: (() => void)[] = [];
  let isHolding = false;
  let reads = 0;
  const cache = createFlooredCache<Doc>({
    clock,
    entriesMax: 100,
    ttlMs: 60_000,
    absentMax: 10,
    absentTtlMs: 2_000,
    floorRetentionMs: 60_000,
    versionOf: (doc) => doc.version,
    // A read's result is fixed when the read begins; the test decides when it arrives.
    load: async (id) => {
      const doc = docs.get(id);
      if (isHolding) await new Promise<void>((release) => held.push(release));
      return doc;
    },
    onLoad: () => reads++,
    ...options,
  });
  return {
    cache,
    clock,
    reads: () => reads,
    put(id: string, version: number): Doc {
      const doc = { id, version };
      docs.set(id, doc);
      return doc;
    },
    remove: (id: string) => docs.delete(id),
    hold() {
      isHolding = true;
    },
    /** Lets the held reads arrive and stops holding later ones. */
    release() {
      isHolding = false;
      for (const arrive of held.splice(0)) arrive();
    },
  };
}

describe("reads of the store", () => {
  test("10,000 look-ups of one unknown id at once read the store once", async () => {
    const { cache, put, reads } = createTestCache();
    const doc = put("a", 1);
    const found = await Promise.all(Array.from({ length: 10_000 }, () => cache.load("a")));
    expect(new Set(found)).toEqual(new Set([doc]));
    expect(reads()).toBe(1);
  });

  test("a cached record costs no read, and neither does a record that came with a raise", async () => {
    const { cache, put, reads } = createTestCache();
    put("a", 1);
    await cache.load("a");
    expect(cache.peek("a")).toEqual({ id: "a", version: 1 });
    cache.raise("a", 2, put("a", 2));
    expect(cache.peek("a")).toEqual({ id: "a", version: 2 });
    expect(await cache.load("a")).toEqual({ id: "a", version: 2 });
    expect(reads()).toBe(1);
  });

  test("an id that is not in the store is read once while its absence is cached", async () => {
    const { cache, clock, reads } = createTestCache();
    expect(cache.peek("a")).toBeUndefined();
    expect(await cache.load("a")).toBeUndefined();
    clock.advance(1_999);
    expect(cache.peek("a")).toBeNull();
    expect(await cache.load("a")).toBeUndefined();
    expect(reads()).toBe(1);
    clock.advance(1);
    expect(cache.peek("a")).toBeUndefined();
  });

  test("a record's lifetime counts from its write, however often it is read", async () => {
    const { cache, clock, put, reads } = createTestCache();
    put("a", 1);
    await cache.load("a");
    for (let n = 0; n < 59; n++) {
      clock.advance(1_000);
      await cache.load("a");
    }
    clock.advance(999);
    expect(cache.peek("a")).toBeDefined();
    clock.advance(1);
    expect(cache.peek("a")).toBeUndefined();
    expect(reads()).toBe(1);
    await cache.load("a");
    expect(reads()).toBe(2);
  });

  test("a failed read rejects all waiting callers with its error, and keeps nothing", async () => {
    const failure = new Error("store");
    const outcomes = [Promise.reject(failure), "throw", Promise.resolve({ id: "a", version: 1 })];
    const cache = createFlooredCache<Doc>({
      clock: createManualClock(),
      entriesMax: 1,
      ttlMs: 1,
      absentMax: 1,
      absentTtlMs: 1,
      floorRetentionMs: 1,
      versionOf: (doc) => doc.version,
      load: () => {
        const outcome = outcomes.shift();
        if (outcome instanceof Promise) return outcome;
        throw failure;
      },
    });
    for (let n = 0; n < 2; n++) {
      const waiting = await Promise.allSettled([cache.load("a"), cache.load("a"), cache.load("a")]);
      expect(waiting).toEqual(Array(3).fill({ status: "rejected", reason: failure }));
      expect(cache.peek("a")).toBeUndefined();
    }
    expect(await cache.load("a")).toEqual({ id: "a", version: 1 });
  });
});

describe("a floor", () => {
  test("of a deletion lets the next read find nothing", async () => {
    const { cache, put, remove, reads } = createTestCache();
    put("a", 1);
    await cache.load("a");
    remove("a");
    cache.raise("a", 2);
    expect(await cache.load("a")).toBeUndefined();
    expect(cache.peek("a")).toBeNull();
    expect(reads()).toBe(2);
  });

  test("changes nothing when it is raised again, late or out of order", async () => {
    const { cache, put, reads } = createTestCache();
    const old = put("a", 2);
    const current = put("a", 3);
    cache.raise("a", 3, current);
    cache.raise("a", 2, old);
    cache.raise("a", 2);
    expect(cache.peek("a")).toBe(current);
    expect(reads()).toBe(0);
  });

  test("drops a record of its own version where it comes without one: a used session keeps its version", async () => {
    const { cache, put } = createTestCache();
    put("a", 1);
    await cache.load("a");
    const used = put("a", 1);
    cache.raise("a", 1);
    expect(cache.peek("a")).toBeUndefined();
    expect(await cache.load("a")).toBe(used);
  });

  test("keeps the newer cached record when it comes with an older one", async () => {
    const { cache, put } = createTestCache();
    const old = put("a", 2);
    const current = put("a", 3);
    await cache.load("a");
    cache.raise("a", 2, old);
    expect(cache.peek("a")).toBe(current);
  });

  test("is kept for its whole retention again when it is raised again", async () => {
    const { cache, clock, put } = createTestCache();
    for (const id of ["a", "b"]) {
      put(id, 1);
      cache.raise(id, 2);
    }
    clock.advance(30_000);
    cache.raise("a", 2);
    clock.advance(30_000);
    // Expired floors are removed when another floor rises.
    cache.raise("c", 1);
    await expect(cache.load("a")).rejects.toEqual(unavailable);
    expect(await cache.load("b")).toEqual({ id: "b", version: 1 });
  });

  test("holds for its retention, and no longer", async () => {
    const { cache, clock, put } = createTestCache();
    put("a", 1);
    cache.raise("a", 2);
    clock.advance(59_999);
    cache.raise("b", 1);
    await expect(cache.load("a")).rejects.toEqual(unavailable);
    clock.advance(1);
    cache.raise("b", 1);
    expect(await cache.load("a")).toEqual({ id: "a", version: 1 });
  });

  test("ends the look-up with UNAVAILABLE after three reads when the store keeps answering with older versions", async () => {
    const { cache, put, reads } = createTestCache();
    put("a", 1);
    cache.raise("a", 2);
    await expect(cache.load("a")).rejects.toEqual(unavailable);
    expect(cache.peek("a")).toBeUndefined();
    expect(reads()).toBe(3);
  });

  test("voids a read that began before it, even when it was forgotten after its retention", async () => {
    const { cache, clock, put, hold, release, reads } = createTestCache();
    put("a", 1);
    hold();
    const found = cache.load("a");
    put("a", 2);
    cache.raise("a", 2);
    clock.advance(60_000);
    cache.raise("b", 1);
    release();
    expect(await found).toEqual({ id: "a", version: 2 });
    expect(reads()).toBe(2);
  });

  test("voids every read that began before it when it was dropped to make room", async () => {
    const { cache, put, hold, release, reads } = createTestCache({ entriesMax: 1 });
    put("a", 1);
    hold();
    const found = cache.load("a");
    put("a", 2);
    cache.raise("a", 2);
    cache.raise("b", 1, put("b", 1));
    // A record that comes with a raise is kept only where no floor was dropped.
    expect(cache.peek("b")).toBeUndefined();
    release();
    expect(await found).toEqual({ id: "a", version: 2 });
    expect(reads()).toBe(2);
  });
  test("holds for a look-up at any moment around the arrival of an older read", async () => {
    for (let moments = 0; moments < 20; moments++) {
      const { cache, put, hold, release } = createTestCache();
      put("a", 1);
      hold();
      const early = cache.load("a");
      release();
      for (let moment = 0; moment < moments; moment++) await null;
      put("a", 2);
      cache.raise("a", 2);
      expect(await cache.load("a")).toEqual({ id: "a", version: 2 });
      expect(cache.peek("a")).toEqual({ id: "a", version: 2 });
      await early;
    }
  });
});

describe("clearing", () => {
  test("forgets every record and every absent id", async () => {
    const { cache, put, reads } = createTestCache();
    put("a", 1);
    await cache.load("a");
    await cache.load("absent");
    cache.clear();
    expect([cache.peek("a"), cache.peek("absent")]).toEqual([undefined, undefined]);
    put("a", 2);
    expect(await cache.load("a")).toEqual({ id: "a", version: 2 });
    expect(reads()).toBe(3);
  });

  test("voids the reads that are under way, found or not, also for those who join them later", async () => {
    const { cache, put, remove, hold, release, reads } = createTestCache();
    put("a", 1);
    put("b", 1);
    hold();
    const found = [cache.load("a"), cache.load("b"), cache.load("c")];
    put("a", 2);
    remove("b");
    put("c", 1);
    cache.clear();
    const joined = cache.load("a");
    release();
    expect(await Promise.all(found)).toEqual([{ id: "a", version: 2 }, undefined, { id: "c", version: 1 }]);
    expect(await joined).toEqual({ id: "a", version: 2 });
    expect(reads()).toBe(6);
  });

  test("keeps the floors, and lets no record in that a raise brings from before it", async () => {
    const { cache, clock, put, reads } = createTestCache();
    const old = put("a", 1);
    cache.raise("a", 2);
    cache.clear();
    await expect(cache.load("a")).rejects.toEqual(unavailable);
    put("b", 6);
    cache.raise("b", 5, { id: "b", version: 5 });
    expect(cache.peek("b")).toBeUndefined();
    clock.advance(60_000);
    cache.raise("a", 3, { ...old, version: 3 });
    expect(cache.peek("a")).toEqual({ id: "a", version: 3 });
    expect(reads()).toBe(3);
  });
});

test("records, absent ids and floors are each kept up to their bound, and the least recently used goes first", async () => {
  const { cache, put } = createTestCache({ entriesMax: 2, absentMax: 2 });
  for (const id of ["a", "b"]) put(id, 1);
  await cache.load("a");
  await cache.load("b");
  cache.peek("a");
  put("c", 1);
  await cache.load("c");
  expect(["a", "b", "c"].map((id) => cache.peek(id)?.id)).toEqual(["a", undefined, "c"]);
  for (const id of ["x", "y", "z"]) await cache.load(id);
  expect(["x", "y", "z"].map((id) => cache.peek(id))).toEqual([undefined, null, null]);
  for (const id of ["a", "b", "c"]) cache.raise(id, 2);
  expect(await cache.load("a")).toEqual({ id: "a", version: 1 });
  for (const id of ["b", "c"]) await expect(cache.load(id)).rejects.toEqual(unavailable);
});

/** What the store held, and what a cache answered: null is an absent record. */
type State = number | null;

const step = fc.record({
  kind: fc.constantFrom("load", "load", "load", "peek", "write", "delete", "clear", "advance"),
  id: fc.constantFrom("a", "b"),
  bringsValue: fc.boolean(),
  advanceMs: fc.constantFrom(1, 1_999, 2_000, 9_000),
});

test("whatever the order of reads, writes and raises, nothing older than a finished raise is ever returned again", async () => {
  let voided = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(step, { minLength: 1, maxLength: 25, size: "max" }),
      fc.infiniteStream(fc.nat(9)),
      fc.integer({ min: 1, max: 2 }),
      async (s, steps, staleness, entriesMax) => {
        const clock = createManualClock();
        const history = new Map<string, State[]>([
          ["a", [null]],
          ["b", [null]],
        ]);
        const raised = new Map([
          ["a", 0],
          ["b", 0],
        ]);
        const now = (id: string) => history.get(id)!.at(-1)!;
        let reads = 0;
        let loads = 0;
        const cache = createFlooredCache<Doc>({
          clock,
          entriesMax,
          ttlMs: 10_000,
          absentMax: 1,
          absentTtlMs: 2_000,
          floorRetentionMs: 300_000,
          versionOf: (doc) => doc.version,
          // Two reads in ten return an old document, as a lagging replica would. Only a floor can
          // show that, so it is left out where there is room for one floor and the other id's floor
          // drops it.
          load: (id) => {
            reads++;
            const states = history.get(id)!;
            const lag = entriesMax > 1 && staleness.next().value < 2 ? 1 : 0;
            const state = states.at(-1 - lag) ?? now(id);
            return s.schedule(
              Promise.resolve(state === null ? undefined : { id, version: state }),
              `read of ${id}`,
            );
          },
        });
        /**
         * Expects a state that the store held at, or after, the last raise that was done when the
         * look-up began.
         */
        const expectCurrent = (id: string, state: State, since: number) =>
          expect(history.get(id)!.slice(since)).toContain(state);

        async function run({
          kind,
          id,
          bringsValue,
          advanceMs,
        }: typeof step extends fc.Arbitrary<infer T> ? T : never) {
          const states = history.get(id)!;
          if (kind === "advance") clock.advance(advanceMs);
          // The floors stay, so what was raised before still holds.
          if (kind === "clear") cache.clear();
          if (kind === "peek") {
            const found = cache.peek(id);
            if (found !== undefined) expectCurrent(id, found?.version ?? null, raised.get(id)!);
          }
          if (kind === "load") {
            loads++;
            const since = raised.get(id)!;
            const found = await cache.load(id).catch((thrown: unknown) => {
              expect(thrown).toEqual(unavailable);
              return "refused" as const;
            });
            if (found !== "refused") expectCurrent(id, found?.version ?? null, since);
          }
          if (kind === "write" || kind === "delete") {
            const index = states.length;
            states.push(kind === "write" ? index : null);
            await s.schedule(Promise.resolve(), `${kind} of ${id} is durable`);
            const value = bringsValue && kind === "write" ? { id, version: index } : undefined;
            cache.raise(id, index, value);
            raised.set(id, Math.max(raised.get(id)!, index));
          }
        }
        const all = steps.map((one, n) =>
          s.schedule(Promise.resolve(), `${n} ${one.kind}`).then(() => run(one)),
        );
        await s.waitFor(Promise.all(all));
        voided += Math.max(0, reads - loads);
      },
    ),
    { numRuns: 2_000, seed: 718 },
  );
  expect(voided).toBeGreaterThan(0);
});
