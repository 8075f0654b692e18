import fc from "fast-check";
import { expect, test } from "vitest";
import { createReadUsage } from "#src/usage/get-usage.ts";
import { createPendingUsage } from "#src/usage/pending-usage.ts";
import { createCountRuns, createUsageWriter } from "#src/usage/usage.ts";
import { createUsageKeeper } from "#src/usage/usage-keeper.ts";
import { dayMs, hourMs, type UsageHour, type UsageStore } from "#src/usage/usage-store.ts";
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
  const writer = createUsageWriter({ pending, store, onWritten: keeper.written, onFailed, onLost: onFailed });
  const read = createReadUsage({ store, pending, nowMs: clock.unixMs });
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

/** The store, whose writes fail as often as `failing` says, each after it was made. */
function losingAnswers(store: UsageStore): { store: UsageStore; fail: (times: number) => void } {
  let failing = 0;
  return {
    fail: (times) => {
      failing = times;
    },
    store: {
      ...store,
      async recordHours(hours) {
        await store.recordHours(hours);
        if (failing-- > 0) throw new Error("the answer was lost");
      },
    },
  };
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
  expect(await one.counts()).toEqual(new Map([[10, 3]]));
  expect(await processOn(usage, "two").counts()).toEqual(new Map([[10, 1]]));
  await one.writer.close();
  expect(await processOn(usage, "two").counts()).toEqual(new Map([[10, 3]]));
  expect(one.pending.take()).toEqual([]);
});

test("a write whose answer was lost is repeated, and counts nothing twice", async () => {
  const { usage } = await openTestStores();
  const losing = losingAnswers(usage);
  const one = processOn(losing.store, "one");
  one.accept("k", 3);
  losing.fail(2);
  await one.writer.flush();
  one.accept("k", 1);
  await one.writer.flush();
  expect(one.failures.length).toBe(2);
  expect(await one.counts()).toEqual(new Map([[10, 4]]));
  await one.writer.flush();
  expect(one.failures.length).toBe(2);
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
  // The page of the first hour is gone by now.
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
  expect(pending.take().map(({ keyId, acceptedCount }) => [keyId, acceptedCount])).toEqual([
    ["a", 2],
    ["b", 1],
  ]);
});

test("a full page goes once it is written, and its keys go on in another one that counts from 0", async () => {
  const { usage } = await openTestStores();
  const pending = createPendingUsage({ incarnation: "one", countsMax: 4, pageCountsMax: 2 });
  const writer = createUsageWriter({
    ...{ pending, store: usage, onWritten: () => {} },
    onFailed: (cause) => expect.unreachable(String(cause)),
    onLost: () => {},
  });
  for (const key of ["a", "b", "c", "a", "d", "e", "f"]) {
    pending.accepted("t", key, midnightMs);
    await writer.flush();
  }
  expect(pending.takeLost()).toBe(0);
  const [sum] = await usage.hours({ teamId: "t", fromMs: 0, untilMs: midnightMs + hourMs, except: [] });
  expect(sum?.acceptedCount).toBe(7);
});

test("a store that is away for long holds back no more than the bound, and gets all that was counted", async () => {
  const { usage } = await openTestStores();
  let isAway = true;
  const recordHours: UsageStore["recordHours"] = (hours) =>
    isAway ? Promise.reject(new Error("away")) : usage.recordHours(hours);
  const one = processOn({ ...usage, recordHours }, "one");
  for (let hour = 0; hour < 30; hour++) {
    one.accept("k", hour + 1);
    await one.writer.flush();
    one.clock.advance(hourMs);
  }
  expect(one.failures.length).toBe(30);
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
  const counts = { acceptedCount: 0, limitedCount: 0, failedCount: 3, appMs: 302 };
  const place = { teamId: "t", keyId: "k", startTimeMs: midnightMs + hourMs, incarnation: "one" };
  expect(pending.take()).toEqual([{ ...place, ...counts }]);
});

test("days are set from their hours, by any instance and as often as it likes, and late counts reach them", async () => {
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
  await Promise.all([one.keeper.keep(), two.keeper.keep()]);
  await one.keeper.keep();
  expect(await usage.newestDay("t")).toBe(midnightMs);
  expect(await one.counts(dayMs)).toEqual(counts);
  expect(await one.counts(dayMs, { keyId: "l" })).toEqual(new Map([[1, 4]]));
  // An instance whose store was away for days: its hours come after their day was set.
  one.clock.advance(5 * dayMs);
  const late = processOn(usage, "late");
  late.accept("k", 10);
  late.clock.advance(6 * dayMs);
  await one.keeper.keep();
  await late.writer.flush();
  await late.keeper.keep();
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
    // In one night of two nobody is there to set the day.
    if (day % 2 === 0) await one.keeper.keep();
    const [count] = [...(await one.counts(dayMs))].filter(([n]) => n === Math.max(0, day - 36));
    seen.push((count?.[1] ?? 0) - Math.max(0, day - 36));
    one.clock.advance(dayMs);
  }
  expect(new Set(seen)).toEqual(new Set([1]));
  await one.keeper.keep();
  expect(await usage.daysWithHours("t")).toEqual(
    Array.from({ length: 35 }, (_, n) => midnightMs + (n + 5) * dayMs),
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

test("what is not set or removed because the store failed is done the next time", async () => {
  const { usage } = await openTestStores();
  let isAway = true;
  const setDay: UsageStore["setDay"] = (...day) =>
    isAway ? Promise.reject(new Error("away")) : usage.setDay(...day);
  const one = processOn({ ...usage, setDay }, "one");
  one.accept("k", 3);
  await one.writer.flush();
  one.clock.advance(40 * dayMs);
  await one.keeper.keep();
  expect(one.failures.length).toBe(1);
  expect(await usage.daysWithHours("t")).toEqual([midnightMs]);
  isAway = false;
  await one.keeper.keep();
  expect(await usage.daysWithHours("t")).toEqual([]);
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
          // A process writes every few seconds. What one had pending for days would count only once
          // it is written: the days are set by then.
          if (step.ms > hourMs) for (const { writer } of processes) await writer.flush();
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
  const keys = (hours: readonly UsageHour[]) => hours.map(({ keyId }) => keyId);
  expect(keys(pending.take())).toEqual(["b", "c"]);
  expect(pending.takeLost()).toBe(0);
});

test("a run of a deleted key counts nothing when it ends, up to the bound of deleted keys", () => {
  const pending = createPendingUsage({ incarnation: "one", deletedKeysMax: 2 });
  const ran = (keyId: string) => pending.ran({ teamId: "t", keyId }, true, 5, midnightMs);
  pending.accepted("t", "a", midnightMs);
  for (const keyId of ["a", "b"]) pending.forgetKey(keyId);
  for (const keyId of ["a", "b", "c"]) ran(keyId);
  const keys = () => pending.take().map(({ keyId }) => keyId);
  expect(keys()).toEqual(["c"]);
  pending.forgetKey("d");
  for (const keyId of ["a", "b", "d"]) ran(keyId);
  expect(keys()).toEqual(["a"]);
});
