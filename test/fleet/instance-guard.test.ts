import { expect, test } from "vitest";
import type { Clock } from "#src/base/clock.ts";
import { type InstanceGuardParts, takeInstance } from "#src/fleet/instance-guard.ts";
import type { InstanceRecordStore } from "#src/fleet/instance-record-store.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { instanceRecordStoreContract } from "../contract/instance-record-store.ts";
import { memoryInstanceRecord } from "../harness/memory-instance-record.ts";
import { soon } from "../harness/soon.ts";

instanceRecordStoreContract("memory", async () => memoryInstanceRecord());

// The test moves the clock. Only the pause between two renewals is real, and has to be short.
const times = { renewMs: 1, holdMs: 5_000, lapseMs: 15_000, waitMsMax: 16_000 };

/**
 * Parts that record their events. Their clock stands still until the test moves it, or until a
 * second attempt begins: then the pause of a second is over.
 */
function partsOf(name: string, records: InstanceRecordStore, pauseIsOver: () => unknown = () => {}) {
  let nowMs = 1_000_000;
  const advance = (ms: number) => {
    nowMs += ms;
  };
  const clock: Clock = { monotonicMs: () => nowMs, unixMs: () => 0 };
  const calls: string[] = [];
  let attempts = 0;
  const parts: InstanceGuardParts = {
    records,
    clock,
    newIncarnation() {
      if (attempts > 0) {
        advance(1_000);
        pauseIsOver();
      }
      return `${name}-${++attempts}`;
    },
    times,
    events: {
      onWaiting: (waitMsMax) => calls.push(`waiting ${waitMsMax}`),
      onRenewalFailed: (cause) => calls.push(`failed ${cause instanceof Error ? cause.message : ""}`),
      onLost: () => calls.push("lost"),
    },
  };
  return { parts, calls, advance, now: () => nowMs };
}

/** The same records, but `happens` runs before each step of one kind. */
function before(
  records: InstanceRecordStore,
  step: "find" | "replace",
  happens: () => unknown,
): InstanceRecordStore {
  return {
    ...records,
    [step]: async (...given: never[]) => {
      await happens();
      return (records[step] as (...given: never[]) => unknown)(...given);
    },
  };
}

/** A record that no instance renews. */
async function abandoned(): Promise<InstanceRecordStore> {
  const records = memoryInstanceRecord();
  await records.create("abandoned");
  return records;
}

test("a store without a holder is taken at once, and renewed from then on", async () => {
  const records = memoryInstanceRecord();
  const { parts, calls } = partsOf("a", records);
  const guard = await takeInstance(parts);
  expect(guard.holds()).toBe(true);
  await soon(async () => (await records.find())?.beat).toBeGreaterThan(3);
  expect(await records.find()).toMatchObject({ incarnation: "a-1" });
  expect(calls).toEqual([]);
  await guard.release();
});

test("a start beside a live instance waits as long as it may, reports it once, and is refused with a reason", async () => {
  const records = memoryInstanceRecord();
  await records.create("live");
  let looks = 0;
  const renewed = before(records, "find", async () => {
    looks += 1;
    await records.renew("live");
  });
  const late = partsOf("late", renewed);
  await expect(takeInstance(late.parts)).rejects.toThrow(/Another Keyrun .* last 16 s.* KEYRUN_MONGODB_URI/);
  expect(looks).toBe(17);
  expect(late.calls).toEqual(["waiting 16000"]);
  expect(await records.find()).toEqual({ incarnation: "live", beat: 18 });
});

test("an abandoned record is taken over once it was seen unchanged for the whole time, and not before", async () => {
  const looks: number[] = [];
  const records = await abandoned();
  const watched = before(records, "find", () => {
    looks.push(next.now());
    // The first look takes a second; the count starts at its end.
    if (looks.length === 1) next.advance(1_000);
  });
  const next = partsOf("next", watched);
  const guard = await takeInstance(next.parts);
  expect(looks.at(-1)! - looks[0]!).toBe(16_000);
  expect(looks).toHaveLength(16);
  expect(guard.holds()).toBe(true);
  expect((await records.find())?.incarnation).toMatch(/^next-/);
  await guard.release();
});

test("one renewal during the wait restarts the count, so the wait ends without the store", async () => {
  const records = await abandoned();
  let looks = 0;
  const renewedOnce = before(records, "find", async () => {
    looks += 1;
    if (looks === 10) await records.renew("abandoned");
  });
  const next = partsOf("next", renewedOnce);
  await expect(takeInstance(next.parts)).rejects.toThrow(StartRefused);
  expect(await records.find()).toEqual({ incarnation: "abandoned", beat: 2 });
});

test("a renewal between the last look and the take-over keeps the store with its instance", async () => {
  const records = await abandoned();
  const renewedLate = before(records, "replace", () => records.renew("abandoned"));
  const next = partsOf("next", renewedLate);
  await expect(takeInstance(next.parts)).rejects.toThrow(StartRefused);
  expect((await records.find())?.incarnation).toBe("abandoned");
});

test("a store that its instance leaves while another waits is taken at once", async () => {
  const records = memoryInstanceRecord();
  const first = await takeInstance(partsOf("first", records).parts);
  let looks = 0;
  const left = before(records, "find", async () => {
    looks += 1;
    if (looks === 3) await first.release();
  });
  const second = partsOf("second", left);
  const guard = await takeInstance(second.parts);
  expect(looks).toBe(3);
  expect(second.calls).toEqual(["waiting 16000"]);
  expect(guard.holds()).toBe(true);
  await guard.release();
});

test("every attempt to take the store has an incarnation of its own", async () => {
  const records = await abandoned();
  const used: string[] = [];
  const next = partsOf("next", records);
  const newIncarnation = () => {
    const name = next.parts.newIncarnation();
    used.push(name);
    return name;
  };
  const guard = await takeInstance({ ...next.parts, newIncarnation });
  expect(used.length).toBeGreaterThan(10);
  expect(new Set(used).size).toBe(used.length);
  await guard.release();
});

test("an instance that can't renew for 5 s stops holding, and holds again once it renewed", async () => {
  const records = memoryInstanceRecord();
  let reachable = true;
  let renewals = 0;
  const faulty: InstanceRecordStore = {
    ...records,
    async renew(incarnation) {
      renewals += 1;
      if (!reachable) throw new Error("out of reach");
      return records.renew(incarnation);
    },
  };
  const { parts, calls, advance } = partsOf("a", faulty);
  const guard = await takeInstance(parts);
  reachable = false;
  await soon(() => calls).toContain("failed out of reach");
  advance(4_999);
  expect(guard.holds()).toBe(true);
  advance(1);
  expect(guard.holds()).toBe(false);
  reachable = true;
  await soon(() => guard.holds()).toBe(true);
  expect(calls).not.toContain("lost");
  expect(renewals).toBeGreaterThan(1);
  await guard.release();
});

test("the hold counts from the sending of a renewal, not from its answer", async () => {
  const records = memoryInstanceRecord();
  let answers = 0;
  const slow: InstanceRecordStore = {
    ...records,
    async renew(incarnation) {
      const renewed = await records.renew(incarnation);
      advance(5_000); // The time that the answer took.
      answers += 1;
      return renewed;
    },
  };
  const { parts, advance } = partsOf("a", slow);
  const guard = await takeInstance(parts);
  await soon(() => answers).toBeGreaterThan(0);
  expect(guard.holds()).toBe(false);
  await guard.release();
});

test("the first instance no longer holds when a successor takes over, and onLost is called once", async () => {
  const records = memoryInstanceRecord();
  let cutOff = false;
  const faulty: InstanceRecordStore = {
    ...records,
    async renew(incarnation) {
      if (cutOff) throw new Error("cut off");
      return records.renew(incarnation);
    },
  };
  const first = partsOf("first", faulty);
  const guard = await takeInstance(first.parts);
  cutOff = true;
  await soon(() => first.calls).toContain("failed cut off");

  let heldAtTakeOver: boolean | undefined;
  const watched = before(records, "replace", () => {
    heldAtTakeOver = guard.holds();
  });
  const second = partsOf("second", watched, () => first.advance(1_000));
  const successor = await takeInstance(second.parts);
  expect(heldAtTakeOver).toBe(false);

  cutOff = false;
  await soon(() => first.calls).toContain("lost");
  expect(guard.holds()).toBe(false);
  expect(first.calls.filter((event) => event === "lost")).toHaveLength(1);
  await guard.release();
  expect(successor.holds()).toBe(true);
  expect((await records.find())?.incarnation).toMatch(/^second-/);
  await successor.release();
});

test("a released instance no longer holds, removes its record and stops renewing; releasing again is no error", async () => {
  const records = memoryInstanceRecord();
  const guard = await takeInstance(partsOf("a", records).parts);
  await guard.release();
  expect(guard.holds()).toBe(false);
  expect(await records.find()).toBeUndefined();
  await guard.release();
});

test("a release that can't reach the store ends without an error", async () => {
  const records = memoryInstanceRecord();
  const gone: InstanceRecordStore = {
    ...records,
    remove: async () => {
      throw new Error("out of reach");
    },
  };
  const guard = await takeInstance(partsOf("a", gone).parts);
  await guard.release();
  expect(guard.holds()).toBe(false);
});

test("a start that is stopped while it waits leaves the store to its holder", async () => {
  const records = memoryInstanceRecord();
  await takeInstance(partsOf("first", records).parts);
  const held = await records.find();
  const stop = new AbortController();
  // The first wait stops the start, and by the clock the record has lapsed at the next look.
  const late = partsOf("late", records, () => stop.abort());
  const parts = {
    ...late.parts,
    signal: stop.signal,
    events: { ...late.parts.events, onWaiting: () => stop.abort() },
  };
  await expect(takeInstance(parts)).rejects.toThrow("stopped while it waited");
  expect((await records.find())?.incarnation).toBe(held?.incarnation);
});
