import fc from "fast-check";
import { expect, test } from "vitest";
import { createReadUsage } from "#src/usage/get-usage.ts";
import { createPendingUsage, type PendingUsage } from "#src/usage/pending-usage.ts";
import { createCountRuns, createUsageWriter } from "#src/usage/usage.ts";
import { createUsageKeeper } from "#src/usage/usage-keeper.ts";
import { dayMs, hourMs, type UsageRecord, type UsageStore, usageBounds } from "#src/usage/usage-store.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { openTestStores } from "./open-test-stores.ts";

const midnightMs = 19_700 * dayMs;

/** What a process counts and keeps, on a store that other processes may use, too. */
function processOn(store: UsageStore, incarnation: string, unixMs = midnightMs + 10 * hourMs) {
  const clock = createManualClock({ monotonicMs: 0, unixMs });
  const pending = createPendingUsage({ incarnation });
  const failures: unknown[] = [];
  const onFailed = (cause: unknown) => void failures.push(cause);
  const keeper = createUsageKeeper({ clock, store, onFailed });
  const writer = createUsageWriter({ pending, store, onFailed, onLost: onFailed });
  const read = createReadUsage(store, writer.flush);
  return {
    clock,
    pending,
    keeper,
    writer,
    failures,
    accept: (keyId = "k", times = 1) => {
      for (let n = 0; n < times; n++) pending.accepted("t", keyId, clock.unixMs());
    },
    /** The accepted requests of the team by hour, or by day, from the first midnight on. */
    async counts(stepMs = hourMs, facts: { keyId?: string } = {}) {
      const time = { teamId: "t", fromMs: midnightMs, untilMs: midnightMs + 500 * dayMs, ...facts };
      const sums = await read({ ...time, stepMs });
      return new Map(sums.map((sum) => [(sum.startTimeMs - midnightMs) / stepMs, sum.acceptedCount]));
    },
  };
}

/**
 * The store, whose writes fail as often as `failing` says, each after it was made. As its contract
 * demands, a batch that is repeated is not added twice.
 */
function losingAnswers(store: UsageStore): { store: UsageStore; fail: (times: number) => void } {
  let failing = 0;
  const added = new Map<string, number>();
  return {
    fail: (times) => {
      failing = times;
    },
    store: {
      ...store,
      async add(batch) {
        const { incarnation, number } = batch;
        if (added.get(incarnation) !== number) await store.add(batch);
        added.set(incarnation, number);
        if (failing-- > 0) throw new Error("the answer was lost");
      },
    },
  };
}

/** What is to be written now. */
function taken(pending: PendingUsage): readonly UsageRecord[] {
  pending.seal();
  const { hours = [] } = pending.batch() ?? {};
  pending.written();
  return hours;
}

test("what is counted is read at once, is written once, and counts no twice while and after it is written", async () => {
  const { usage } = await openTestStores();
  const one = processOn(usage, "one");
  one.accept();
  expect(await one.counts()).toEqual(new Map([[10, 1]]));
  const writing = one.writer.flush();
  expect(await one.counts()).toEqual(new Map([[10, 1]]));
  await writing;
  expect(await one.counts()).toEqual(new Map([[10, 1]]));
  one.accept("k", 2);
  expect(await processOn(usage, "two").counts()).toEqual(new Map([[10, 1]]));
  const begun = one.writer.flush();
  one.accept("k", 1);
  // Also what was counted while a write was under way.
  expect(await one.counts()).toEqual(new Map([[10, 4]]));
  await begun;
  one.accept("k", 1);
  await one.writer.close();
  expect(await processOn(usage, "two").counts()).toEqual(new Map([[10, 5]]));
  expect(taken(one.pending)).toEqual([]);
});

test("a write whose answer was lost is repeated, and counts nothing twice", async () => {
  const { usage } = await openTestStores();
  const losing = losingAnswers(usage);
  const one = processOn(losing.store, "one");
  one.accept("k", 3);
  losing.fail(4);
  await one.writer.flush();
  one.accept("k", 1);
  await one.writer.flush();
  expect(one.failures.length).toBe(4);
  expect(await one.counts()).toEqual(new Map([[10, 4]]));
  await one.writer.flush();
  expect(one.failures.length).toBe(4);
  expect(await processOn(usage, "other").counts()).toEqual(new Map([[10, 4]]));
});

test("two incarnations are summed, hours stand for themselves, and a clock that is set back counts anew", async () => {
  const { usage } = await openTestStores();
  const [one, two] = [processOn(usage, "one"), processOn(usage, "two")];
  one.accept("k", 5);
  two.accept("k", 7);
  await Promise.all([one.writer.flush(), two.writer.flush()]);
  one.clock.advance(hourMs - 1);
  one.accept();
  one.clock.advance(1);
  one.accept("k", 2);
  await one.writer.flush();
  one.clock.stepWall(-hourMs);
  one.accept("k", 4);
  await one.writer.flush();
  const counts = new Map([
    [10, 17],
    [11, 2],
  ]);
  expect(await one.counts()).toEqual(counts);
  expect(await two.counts()).toEqual(counts);
});

test("past the bound a further key is not counted, which is told, and those that are pending go on", () => {
  const pending = createPendingUsage({ incarnation: "one", countsMax: 2 });
  for (const key of ["a", "b", "c", "a"]) pending.accepted("t", key, midnightMs);
  expect(pending.takeLost()).toBe(1);
  expect(pending.takeLost()).toBe(0);
  expect(taken(pending).map(({ keyId, acceptedCount }) => [keyId, acceptedCount])).toEqual([
    ["a", 2],
    ["b", 1],
  ]);
  pending.accepted("t", "c", midnightMs);
  expect([taken(pending).length, pending.takeLost()]).toEqual([1, 0]);
});

test("more counts than one write may have are written in several, each under its own number", async () => {
  const { usage } = await openTestStores();
  const sizes: number[] = [];
  const add: UsageStore["add"] = (batch) => {
    sizes.push(batch.hours.length);
    return usage.add(batch);
  };
  const one = processOn({ ...usage, add }, "one");
  const most = usageBounds.countsPerWriteMax;
  for (let n = 0; n < most + 1; n++) one.accept(`k${n}`);
  expect(await one.counts()).toEqual(new Map([[10, most + 1]]));
  expect(sizes).toEqual([most, 1]);
});

test("a store that is away for long holds back no more than the bound, and gets all that was counted", async () => {
  const { usage } = await openTestStores();
  let isAway = true;
  const add: UsageStore["add"] = (batch) => (isAway ? Promise.reject(new Error("away")) : usage.add(batch));
  const one = processOn({ ...usage, add }, "one");
  for (let hour = 0; hour < 30; hour++) {
    one.accept("k", hour + 1);
    await one.writer.flush();
    one.clock.advance(hourMs);
  }
  expect(one.failures.length).toBe(60);
  isAway = false;
  await one.writer.flush();
  const counts = await processOn(usage, "other", one.clock.unixMs()).counts();
  expect([...counts.values()].reduce((sum, count) => sum + count, 0)).toBe((30 * 31) / 2);
  expect(counts.size).toBe(30);
});

test("runs count in the hour in which they end; those that the app failed, and no others, as failed", () => {
  const pending = createPendingUsage({ incarnation: "one" });
  const countRun = createCountRuns(pending, () => midnightMs + hourMs);
  const run = { teamId: "t", keyId: "k" };
  for (const reason of ["APP_FAILED", "APP_TIMEOUT", "APP_UNREACHABLE"] as const) countRun(run, reason, 100);
  for (const reason of ["OK", "APP_BUSY", "CANCELLED", "UNAVAILABLE", "INTERNAL"] as const) {
    countRun(run, reason, 0.3);
  }
  const counts = { acceptedCount: 0, limitedCount: 0, failedCount: 3, appMs: 301 };
  const place = { teamId: "t", keyId: "k", startTimeMs: midnightMs + hourMs };
  expect(taken(pending)).toEqual([{ ...place, ...counts }]);
  // Half a millisecond was left, and goes into the next count.
  countRun(run, "OK", 0.7);
  expect(taken(pending)).toEqual([{ ...place, ...counts, failedCount: 0, appMs: 1 }]);
});

test("a day has all of its hours at once, from every instance, and what comes late", async () => {
  const { usage } = await openTestStores();
  const [one, two] = [processOn(usage, "one"), processOn(usage, "two")];
  for (const each of [one, two]) {
    each.accept("k", 3);
    await each.writer.flush();
    each.clock.advance(dayMs);
    each.accept("l", 2);
    await each.writer.flush();
  }
  const counts = new Map([
    [0, 6],
    [1, 4],
  ]);
  expect(await one.counts(dayMs)).toEqual(counts);
  expect(await one.counts(dayMs, { keyId: "l" })).toEqual(new Map([[1, 4]]));
  // An instance whose store was away for days.
  one.clock.advance(5 * dayMs);
  await one.keeper.keep();
  const late = processOn(usage, "late");
  late.accept("k", 10);
  late.clock.advance(6 * dayMs);
  await late.writer.flush();
  expect(await one.counts(dayMs)).toEqual(new Map([...counts, [0, 16]]));
  expect(one.failures).toEqual([]);
});

test("hours go after 35 days and days after 13 months; a day says the same before and after its hours go", async () => {
  const { usage } = await openTestStores();
  const one = processOn(usage, "one");
  const seen: number[] = [];
  for (let day = 0; day < 40; day++) {
    one.accept("k", day + 1);
    await one.writer.flush();
    await one.keeper.keep();
    const [count] = [...(await one.counts(dayMs))].filter(([n]) => n === Math.max(0, day - 36));
    seen.push((count?.[1] ?? 0) - Math.max(0, day - 36));
    one.clock.advance(dayMs);
  }
  expect(new Set(seen)).toEqual(new Set([1]));
  await one.keeper.keep();
  expect([...(await one.counts()).keys()].toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 35 }, (_, n) => (n + 5) * 24 + 10),
  );
  expect([...(await one.counts(dayMs)).entries()].toSorted(([a], [b]) => a - b)).toEqual(
    Array.from({ length: 40 }, (_, day) => [day, day + 1]),
  );
  one.clock.advance(400 * dayMs);
  await one.keeper.keep();
  expect(await processOn(usage, "later", one.clock.unixMs()).counts(dayMs)).toEqual(new Map());
  expect(await usage.teamAfter("")).toBeUndefined();
  expect(one.failures).toEqual([]);
});

test("what is not removed because the store failed is removed the next time", async () => {
  const { usage } = await openTestStores();
  let isAway = true;
  const deleteHours: UsageStore["deleteHours"] = (...order) =>
    isAway ? Promise.reject(new Error("away")) : usage.deleteHours(...order);
  const one = processOn({ ...usage, deleteHours }, "one");
  one.accept("k", 3);
  await one.writer.flush();
  one.clock.advance(40 * dayMs);
  await one.keeper.keep();
  expect(one.failures.length).toBe(1);
  expect(await one.counts()).toEqual(new Map([[10, 3]]));
  isAway = false;
  await one.keeper.keep();
  expect(await one.counts()).toEqual(new Map());
  expect(await one.counts(dayMs)).toEqual(new Map([[0, 3]]));
});

type Step =
  | { kind: "accept"; process: number; key: string; times: number }
  | { kind: "pass"; ms: number }
  | { kind: "flush" | "lost" | "keep" | "kill"; process: number };

const steps = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant("accept" as const),
        process: fc.nat(1),
        key: fc.constantFrom("a", "b", "c"),
        times: fc.integer({ min: 1, max: 5 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("pass" as const),
        ms: fc.constantFrom(1_000, 40 * 60_000, hourMs, 7 * hourMs, dayMs, 3 * dayMs),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constantFrom("flush" as const, "lost" as const, "keep" as const, "kill" as const),
        process: fc.nat(1),
      }),
    },
  ),
  { maxLength: 40 },
) as fc.Arbitrary<Step[]>;

test("whatever fails, repeats, restarts and passes, hours and days are what a plain count says", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const { usage, close } = await openTestStores();
      const losing = losingAnswers(usage);
      let started = 0;
      let nowMs = midnightMs;
      const start = () => processOn(losing.store, `p${++started}`, nowMs);
      const processes = [start(), start()];
      const naive = new Map<string, number>();
      const add = (place: string, times: number) => naive.set(place, (naive.get(place) ?? 0) + times);
      for (const step of all) {
        if (step.kind === "pass") {
          nowMs += step.ms;
          for (const { clock } of processes) clock.advance(step.ms);
          continue;
        }
        const one = processes[step.process]!;
        if (step.kind === "accept") {
          one.accept(step.key, step.times);
          for (const ms of [hourMs, dayMs]) {
            const place = Math.floor((nowMs - midnightMs) / ms);
            add(`${ms} ${place}`, step.times);
            add(`${ms} ${place} ${step.key}`, step.times);
          }
        }
        if (step.kind === "lost") losing.fail(1);
        if (step.kind === "flush" || step.kind === "lost") await one.writer.flush();
        if (step.kind === "lost") losing.fail(0);
        if (step.kind === "keep") await one.keeper.keep();
        if (step.kind === "kill") {
          // Its last flush was before.
          await one.writer.flush();
          processes[step.process] = start();
        }
      }
      await processes[1]!.writer.flush();
      const [reader] = processes;
      const hoursFrom = Math.floor((nowMs - midnightMs) / hourMs) - 35 * 24;
      for (const ms of [hourMs, dayMs]) {
        for (const keyId of [undefined, "a", "b", "c"]) {
          const found = await reader!.counts(ms, keyId === undefined ? {} : { keyId });
          const wanted = [...naive].flatMap(([place, count]) => {
            const [step, n, key] = place.split(" ");
            return Number(step) === ms && key === keyId ? [[Number(n), count] as const] : [];
          });
          // Older hours may be gone.
          const kept = (n: number) => ms === dayMs || n > hoursFrom + 24;
          expect(new Map([...found].filter(([n]) => kept(n)))).toEqual(
            new Map(wanted.filter(([n]) => kept(n))),
          );
        }
      }
      await close();
    }),
    { numRuns: 60 },
  );
});

test("what a deleted team has is let go of", () => {
  const pending = createPendingUsage({ incarnation: "one", countsMax: 2 });
  pending.accepted("gone", "a", midnightMs);
  pending.accepted("t", "b", midnightMs);
  pending.forget("gone");
  pending.accepted("t", "c", midnightMs);
  const keys = () => taken(pending).map(({ keyId }) => keyId);
  expect(keys()).toEqual(["b", "c"]);
  expect(pending.takeLost()).toBe(0);
  // Also of what could not be written yet.
  pending.accepted("gone", "a", midnightMs);
  pending.accepted("t", "b", midnightMs);
  pending.seal();
  pending.forget("gone");
  expect(pending.batch()?.hours.map(({ keyId }) => keyId)).toEqual(["b"]);
});

test("a run of a deleted key counts nothing when it ends, up to the bound of deleted keys", () => {
  const pending = createPendingUsage({ incarnation: "one", deletedKeysMax: 2 });
  const ran = (keyId: string) => pending.ran({ teamId: "t", keyId }, true, 5, midnightMs);
  pending.accepted("t", "a", midnightMs);
  for (const keyId of ["a", "b"]) pending.forgetKey(keyId);
  for (const keyId of ["a", "b", "c"]) ran(keyId);
  const keys = () => taken(pending).map(({ keyId }) => keyId);
  expect(keys()).toEqual(["c"]);
  pending.forgetKey("d");
  for (const keyId of ["a", "b", "d"]) ran(keyId);
  expect(keys()).toEqual(["a"]);
});
