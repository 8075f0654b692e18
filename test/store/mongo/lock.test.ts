import { expect, test } from "vitest";
import type { Clock } from "#src/base/clock.ts";
import { type LockRecords, takeLock } from "#src/store/mongo/lock.ts";
import { lockRecordsContract } from "../../contract/lock-records.ts";
import { memoryLockRecords } from "./memory-lock-records.ts";

lockRecordsContract("memory", async () => memoryLockRecords());

// The test moves the clock. Only the pause between two renewals is real, and has to be short.
const times = { renewMs: 1, lockMs: 3_000, lapseMs: 6_000, waitMsMax: 10_000 };

/**
 * Their clock stands still until the test moves it, or until a second attempt begins: then the
 * pause of a second is over.
 */
function partsOf(name: string, pauseIsOver: () => unknown = () => {}) {
  let nowMs = 1_000_000;
  const advance = (ms: number) => {
    nowMs += ms;
  };
  const clock: Clock = { monotonicMs: () => nowMs, unixMs: () => 0 };
  const used: string[] = [];
  const newIncarnation = () => {
    if (used.length > 0) {
      advance(1_000);
      pauseIsOver();
    }
    used.push(`${name}-${used.length + 1}`);
    return used.at(-1)!;
  };
  return { parts: { clock, newIncarnation, times }, used, advance, now: () => nowMs };
}

/** The same records, but `happens` runs before each step of one kind. */
function before(
  records: LockRecords,
  step: "find" | "replace" | "renew",
  happens: () => unknown,
): LockRecords {
  return {
    ...records,
    [step]: async (...given: never[]) => {
      await happens();
      return (records[step] as (...given: never[]) => unknown)(...given);
    },
  };
}

/** A record that no instance renews. */
async function abandoned(): Promise<LockRecords> {
  const records = memoryLockRecords();
  await records.create("abandoned");
  return records;
}

test("a free lock is taken at once, renewed from then on, and free again once it is released", async () => {
  const records = memoryLockRecords();
  const lock = await takeLock(records, partsOf("a").parts);
  expect(lock.isValid()).toBe(true);
  await expect.poll(async () => (await records.find())?.beat).toBeGreaterThan(3);
  expect(await records.find()).toMatchObject({ incarnation: "a-1" });
  await lock.release();
  expect(lock.isValid()).toBe(false);
  expect(await records.find()).toBeUndefined();
  await lock.release();
});

test("a lock that another instance renews is waited for as long as may be, and then UNAVAILABLE", async () => {
  const records = memoryLockRecords();
  await records.create("live");
  let looks = 0;
  const renewed = before(records, "find", async () => {
    looks += 1;
    await records.renew("live");
  });
  await expect(takeLock(renewed, partsOf("late").parts)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(looks).toBe(11);
  expect(await records.find()).toEqual({ incarnation: "live", beat: 12 });
});

test("an abandoned lock is taken once it was seen unchanged for the whole time, and not before", async () => {
  const looks: number[] = [];
  const records = await abandoned();
  const watched = before(records, "find", () => {
    looks.push(next.now());
    // The first look takes a second; the count starts at its end.
    if (looks.length === 1) next.advance(1_000);
  });
  const next = partsOf("next");
  const lock = await takeLock(watched, next.parts);
  expect(looks.at(-1)! - looks[0]!).toBe(7_000);
  expect(lock.isValid()).toBe(true);
  expect((await records.find())?.incarnation).toMatch(/^next-/);
  // Each attempt has an incarnation of its own.
  expect(new Set(next.used).size).toBe(looks.length);
  await lock.release();
});

test("one renewal during the wait restarts the count", async () => {
  const records = await abandoned();
  let looks = 0;
  const renewedOnce = before(records, "find", async () => {
    looks += 1;
    if (looks === 6) await records.renew("abandoned");
  });
  await expect(takeLock(renewedOnce, partsOf("next").parts)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(await records.find()).toEqual({ incarnation: "abandoned", beat: 2 });
});

test("a renewal between the last look and the take-over keeps the lock with its holder", async () => {
  const records = await abandoned();
  const renewedLate = before(records, "replace", () => records.renew("abandoned"));
  await expect(takeLock(renewedLate, partsOf("next").parts)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect((await records.find())?.incarnation).toBe("abandoned");
});

test("a holder that can't renew stops holding, and holds again once it renewed", async () => {
  let reachable = true;
  let renewals = 0;
  const faulty = before(memoryLockRecords(), "renew", () => {
    renewals += 1;
    if (!reachable) throw new Error("out of reach");
  });
  const { parts, advance } = partsOf("a");
  const lock = await takeLock(faulty, parts);
  reachable = false;
  const seen = renewals;
  await expect.poll(() => renewals).toBeGreaterThan(seen + 1);
  advance(2_999);
  expect(lock.isValid()).toBe(true);
  advance(1);
  expect(lock.isValid()).toBe(false);
  reachable = true;
  await expect.poll(() => lock.isValid()).toBe(true);
  await lock.release();
});

test("the hold of a lock counts from the sending of a renewal, not from its answer", async () => {
  const records = memoryLockRecords();
  let answers = 0;
  const slow: LockRecords = {
    ...records,
    async renew(incarnation) {
      const renewed = await records.renew(incarnation);
      advance(3_000); // The time that the answer took.
      answers += 1;
      return renewed;
    },
  };
  const { parts, advance } = partsOf("a");
  const lock = await takeLock(slow, parts);
  await expect.poll(() => answers).toBeGreaterThan(0);
  expect(lock.isValid()).toBe(false);
  await lock.release();
});

test("the first holder no longer holds when a successor takes over, nor ever again", async () => {
  const records = memoryLockRecords();
  let cutOff = false;
  let renewals = 0;
  const faulty = before(records, "renew", () => {
    renewals += 1;
    if (cutOff) throw new Error("cut off");
  });
  const first = partsOf("first");
  const lock = await takeLock(faulty, first.parts);
  cutOff = true;

  let heldAtTakeOver: boolean | undefined;
  const watched = before(records, "replace", () => {
    heldAtTakeOver = lock.isValid();
  });
  const successor = await takeLock(watched, partsOf("second", () => first.advance(1_000)).parts);
  expect(heldAtTakeOver).toBe(false);

  cutOff = false;
  const seen = renewals;
  await expect.poll(() => renewals).toBeGreaterThan(seen);
  expect(lock.isValid()).toBe(false);
  await lock.release();
  expect((await records.find())?.incarnation).toMatch(/^second-/);
  await successor.release();
});

test("a release that can't reach the store ends without an error", async () => {
  const gone: LockRecords = {
    ...memoryLockRecords(),
    remove: async () => {
      throw new Error("out of reach");
    },
  };
  const lock = await takeLock(gone, partsOf("a").parts);
  await lock.release();
  expect(lock.isValid()).toBe(false);
});
