import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import {
  type AloneParts,
  awaitOthers,
  instanceTimes,
  registerBesideNoLoneInstance,
  serveAlone,
} from "#src/fleet/alone.ts";
import type { ControlStore } from "#src/fleet/control-store.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { memoryControlStore } from "../harness/memory-control-store.ts";

/**
 * Parts that record their events. The clock moves by a second during each look at a start, whose
 * beginning counts, and where the test moves it. The pauses between looks are short.
 */
function watched(looked: (place: number) => unknown = () => {}) {
  const clock = createManualClock();
  let looks = 0;
  const look = async () => {
    if (looks > 0) clock.advance(1_000);
    looks += 1;
    await looked(looks);
  };
  const waits: number[] = [];
  const calls: string[] = [];
  const parts: AloneParts = {
    ...{ clock, timers: clock, newIncarnation: randomUUID },
    times: { ...instanceTimes, beatMs: 1, lapseMs: 15_000, waitMsMax: 16_000 },
    events: {
      onWaiting: (waitMsMax) => waits.push(waitMsMax),
      onRenewalFailed: (cause) => calls.push(`failed ${cause instanceof Error ? cause.message : ""}`),
      onLost: () => calls.push("lost"),
    },
  };
  return { parts, look, waits, looks: () => looks, calls, clock };
}

const looking = (control: ControlStore, look: () => Promise<void>): ControlStore => ({
  ...control,
  async read() {
    await look();
    return control.read();
  },
});

const aloneFacts = instanceFactsOf({ alone: true });
const beat = { ack: 0, nSeen: 0 };

/** A control store with one record, that of an instance alone. */
async function oneAlone() {
  const control = memoryControlStore();
  const id = randomUUID();
  await control.register(id, aloneFacts);
  return { control, id };
}

/** An instance that serves alone and beats whenever the test moves the clock by a millisecond. */
async function serving(control: ControlStore, given = watched()) {
  const guard = await serveAlone(control, given.parts);
  onTestFinished(guard.release);
  /** Resolves after the next heartbeat, whatever became of it. */
  const beats = async (beaten: () => unknown) => {
    const from = beaten();
    await expect
      .poll(() => {
        given.clock.advance(1);
        return beaten();
      })
      .not.toEqual(from);
  };
  return { ...given, guard, beats };
}

const leasesOf = async (control: ControlStore) => (await control.read()).leases;

test("without a record of the other side, neither waits", async () => {
  const { parts, look, waits, looks } = watched();
  for (const alone of [true, false])
    await awaitOthers(looking(memoryControlStore(), look), { ...parts, alone });
  expect({ waits, looks: looks() }).toEqual({ waits: [], looks: 2 });
});

test("a start alone beside a live fleet waits, says so once, and is refused with what to do", async () => {
  const control = memoryControlStore();
  const ids = [randomUUID(), randomUUID()];
  for (const id of ids) await control.register(id, instanceFactsOf());
  const { parts, look, waits } = watched(() => Promise.all(ids.map((id) => control.beat(id, beat))));
  const refused = awaitOthers(looking(control, look), { ...parts, alone: true });
  await expect(refused).rejects.toThrow(
    /A fleet serves this MongoDB database, of which 2 instances .* last 16 s\. Set KEYRUN_REDIS_URL to join it/,
  );
  await expect(refused).rejects.toBeInstanceOf(StartRefused);
  expect(waits).toEqual([16_000]);
  expect((await control.read()).leases).toHaveLength(2);
});

test("a start alone goes on as soon as the last instance of the fleet has left", async () => {
  const control = memoryControlStore();
  const ids = [randomUUID(), randomUUID()];
  for (const id of ids) await control.register(id, instanceFactsOf());
  const { parts, look, looks } = watched(async (place) => {
    if (place < 5) await control.beat(ids[1]!, beat);
    if (place === 2) await control.remove(ids[0]!);
    if (place === 5) await control.remove(ids[1]!);
  });
  await awaitOthers(looking(control, look), { ...parts, alone: true });
  expect(looks()).toBe(5);
});

test("records of a fleet that crashed hold a start up for the time of a lapse, and can't come back", async () => {
  const control = memoryControlStore();
  const ids = [randomUUID(), randomUUID()];
  for (const id of ids) await control.register(id, instanceFactsOf());
  const { parts, look, looks } = watched();
  await awaitOthers(looking(control, look), { ...parts, alone: true });
  expect(looks()).toBe(16);
  expect((await control.read()).leases).toEqual([]);
  for (const id of ids) expect(await control.beat(id, beat)).toBeUndefined();
});

test("a heartbeat during the wait restarts the count of a lapse", async () => {
  const control = memoryControlStore();
  const id = randomUUID();
  await control.register(id, instanceFactsOf());
  const { parts, look } = watched((place) => place === 10 && control.beat(id, beat));
  const refused = awaitOthers(looking(control, look), { ...parts, alone: true });
  await expect(refused).rejects.toBeInstanceOf(StartRefused);

  const { parts: next, look: nextLook, looks } = watched((place) => place <= 2 && control.beat(id, beat));
  const times = { ...next.times!, waitMsMax: 60_000 };
  await awaitOthers(looking(control, nextLook), { ...next, times, alone: true });
  expect(looks()).toBe(17);
});

test("an instance that wakes up between the last look and the removal of its record keeps it", async () => {
  const control = memoryControlStore();
  const id = randomUUID();
  await control.register(id, instanceFactsOf());
  const { parts, look } = watched();
  const waking: ControlStore = {
    ...looking(control, look),
    async removeUnchanged(...given) {
      await control.beat(id, beat);
      return control.removeUnchanged(...given);
    },
  };
  await expect(awaitOthers(waking, { ...parts, alone: true })).rejects.toBeInstanceOf(StartRefused);
  expect((await control.read()).leases).toHaveLength(1);
});

test("a start in a fleet beside a lone instance waits, says so once, and is refused with what to do", async () => {
  const { control, id } = await oneAlone();
  const { parts, look, waits } = watched(() => control.beat(id, beat));
  const refused = awaitOthers(looking(control, look), { ...parts, alone: false });
  await expect(refused).rejects.toThrow(
    /A Keyrun without KEYRUN_REDIS_URL serves this MongoDB database alone .* last 16 s\. Stop it/,
  );
  await expect(refused).rejects.toBeInstanceOf(StartRefused);
  expect(waits).toEqual([16_000]);
  expect(await leasesOf(control)).toMatchObject([{ id }]);
});

test("the record of a lone instance that crashed holds a fleet up for the time of a lapse, and can't come back", async () => {
  const { control, id } = await oneAlone();
  const { parts, look, looks } = watched();
  await awaitOthers(looking(control, look), { ...parts, alone: false });
  expect(looks()).toBe(16);
  expect(await leasesOf(control)).toEqual([]);
  expect(await control.beat(id, beat)).toBeUndefined();
});

test("a start that is stopped while it waits ends without the store", async () => {
  const control = memoryControlStore();
  await control.register(randomUUID(), instanceFactsOf());
  const stop = new AbortController();
  const { parts, look, looks } = watched((place) => place === 3 && stop.abort());
  const stopped = awaitOthers(looking(control, look), { ...parts, signal: stop.signal, alone: true });
  await expect(stopped).rejects.toThrow(/was stopped/);
  expect(looks()).toBe(3);
});

test("an instance that registers while another serves alone is not registered, also when it comes back", async () => {
  const control = memoryControlStore();
  const fleet = registerBesideNoLoneInstance(control, async () => {});
  const before = randomUUID();
  expect((await fleet.register(before, instanceFactsOf())).leases).toHaveLength(1);
  await control.remove(before);
  const lone = randomUUID();
  await control.register(lone, aloneFacts);
  await expect(fleet.register(randomUUID(), instanceFactsOf())).rejects.toMatchObject({
    reason: "UNAVAILABLE",
  });
  expect(await leasesOf(control)).toMatchObject([{ id: lone }]);
  await control.remove(lone);
  // The try that was refused took no place in the order.
  const { leases } = await fleet.register(randomUUID(), instanceFactsOf());
  expect(leases).toMatchObject([{ order: 3 }]);
});

test("one that registers right before another begins to serve alone takes its record back", async () => {
  const control = memoryControlStore();
  const lone = randomUUID();
  const beginning: ControlStore = {
    ...control,
    async register(...given) {
      await control.register(lone, aloneFacts);
      return control.register(...given);
    },
  };
  const fleet = registerBesideNoLoneInstance(beginning, async () => {});
  await expect(fleet.register(randomUUID(), instanceFactsOf())).rejects.toMatchObject({
    reason: "UNAVAILABLE",
  });
  expect(await leasesOf(control)).toMatchObject([{ id: lone }]);
});

test("one that registers on a database that may not be served by then takes its record back", async () => {
  const control = memoryControlStore();
  const unfit = new StartRefused("a part of a copy");
  const fleet = registerBesideNoLoneInstance(control, async () => {
    // Asked after the registration: what comes from here on sees the record.
    expect((await control.read()).leases).toHaveLength(1);
    throw unfit;
  });
  await expect(fleet.register(randomUUID(), instanceFactsOf())).rejects.toBe(unfit);
  expect((await control.read()).leases).toEqual([]);
});

test("a store without a holder is taken at once, and renewed from then on", async () => {
  const control = memoryControlStore();
  const { guard, beats, calls, waits } = await serving(control);
  expect(guard.isValid()).toBe(true);
  const n = () => control.now.read().leases[0]?.n;
  await beats(n);
  await beats(n);
  expect(await leasesOf(control)).toMatchObject([{ facts: { alone: true } }]);
  expect([calls, waits]).toEqual([[], []]);
});

test("a start beside a live instance waits as long as it may, reports it once, and is refused with a reason", async () => {
  const { control, id } = await oneAlone();
  const late = watched(() => control.beat(id, beat));
  await expect(serveAlone(looking(control, late.look), late.parts)).rejects.toThrow(
    /Another Keyrun .* last 16 s.* KEYRUN_MONGODB_URI/,
  );
  expect(late.looks()).toBe(17);
  expect(late.waits).toEqual([16_000]);
  expect(await leasesOf(control)).toMatchObject([{ id, n: 18 }]);
});

test("an abandoned record is taken over once it was seen unchanged for the whole time, and not before", async () => {
  const { control, id } = await oneAlone();
  const begins: number[] = [];
  const next = watched(() => begins.push(next.clock.monotonicMs()));
  const { guard } = await serving(looking(control, next.look), next);
  expect(begins.at(-1)! - begins[0]!).toBe(15_000);
  expect(guard.isValid()).toBe(true);
  expect(await leasesOf(control)).not.toMatchObject([{ id }]);
});

test("a store that its instance leaves while another waits is taken at once", async () => {
  const control = memoryControlStore();
  const first = await serving(control);
  const second = watched((place) => place === 3 && first.guard.release());
  const { guard } = await serving(looking(control, second.look), second);
  expect(second.looks()).toBe(3);
  expect(second.waits).toEqual([16_000]);
  expect(guard.isValid()).toBe(true);
});

test("of two that start alone in one moment, the one that registered later yields", async () => {
  const control = memoryControlStore();
  const { id } = { id: randomUUID() };
  const late: ControlStore = {
    ...control,
    async register(...given) {
      // After the last look of the start.
      await control.register(id, aloneFacts);
      return control.register(...given);
    },
  };
  await expect(serveAlone(late, watched().parts)).rejects.toThrow(/Another Keyrun .* last 5 s/);
  expect(await leasesOf(control)).toMatchObject([{ id }]);
});

test("an instance that can't renew for 5 s stops holding, and holds again once it renewed", async () => {
  const control = memoryControlStore();
  let reachable = true;
  let beaten = 0;
  const faulty: ControlStore = {
    ...control,
    async beat(...given) {
      beaten += 1;
      if (!reachable) throw new Error("out of reach");
      return control.beat(...given);
    },
  };
  const { guard, calls, clock, beats } = await serving(faulty);
  reachable = false;
  await beats(() => beaten);
  await beats(() => beaten);
  // One call for an outage.
  expect(calls).toEqual(["failed out of reach"]);
  expect(guard.whyNot?.()).toMatchObject({ message: "out of reach" });
  const leftMs = guard.leftMs?.() ?? 0;
  clock.advance(leftMs - 1);
  expect(guard.isValid()).toBe(true);
  clock.advance(1);
  expect([guard.isValid(), guard.leftMs?.()]).toEqual([false, 0]);
  reachable = true;
  await beats(() => guard.isValid());
  expect(guard.isValid()).toBe(true);
  expect(guard.whyNot?.()).toBeUndefined();
  expect(calls).not.toContain("lost");
});

test("the hold counts from the sending of a renewal, not from its answer", async () => {
  const control = memoryControlStore();
  let answers = 0;
  const slow: ControlStore = {
    ...control,
    async beat(...given) {
      const view = await control.beat(...given);
      if (answers > 0) clock.advance(5_000); // The time that the answer took.
      answers += 1;
      return view;
    },
  };
  const { guard, clock, beats } = await serving(slow);
  await beats(() => answers);
  expect(guard.isValid()).toBe(false);
});

test("the first instance no longer holds when a successor takes over, and onLost is called once", async () => {
  const control = memoryControlStore();
  let cutOff = false;
  const faulty: ControlStore = {
    ...control,
    async beat(...given) {
      if (cutOff) throw new Error("cut off");
      return control.beat(...given);
    },
  };
  const first = await serving(faulty);
  cutOff = true;
  await first.beats(() => first.calls.length);

  let heldAtTakeOver: boolean | undefined;
  const watching: ControlStore = {
    ...control,
    async removeUnchanged(...given) {
      heldAtTakeOver = first.guard.isValid();
      return control.removeUnchanged(...given);
    },
  };
  const next = watched(() => first.clock.advance(1_000));
  const successor = await serving(looking(watching, next.look), next);
  expect(heldAtTakeOver).toBe(false);

  cutOff = false;
  await first.beats(() => first.calls.length);
  await first.guard.release();
  expect(first.calls).toEqual(["failed cut off", "lost"]);
  expect(first.guard.isValid()).toBe(false);
  expect(successor.guard.isValid()).toBe(true);
  expect(await leasesOf(control)).toHaveLength(1);
});

test("an instance alone whose successor has come and gone does not hold again, as it knows nothing of its changes", async () => {
  const control = memoryControlStore();
  const first = await serving(control);
  const [{ id } = { id: "" }] = await leasesOf(control);
  await control.remove(id);
  await first.beats(() => first.calls.length);
  expect(first.calls).toEqual(["lost"]);
  expect(first.guard.isValid()).toBe(false);
  expect(await leasesOf(control)).toEqual([]);
});

test("a released instance no longer holds, removes its record and stops renewing; releasing again is no error", async () => {
  const control = memoryControlStore();
  const { guard } = await serving(control);
  await guard.release();
  expect(guard.isValid()).toBe(false);
  expect(await leasesOf(control)).toEqual([]);
  await guard.release();
});

test("a release that can't reach the store ends without an error", async () => {
  const gone: ControlStore = {
    ...memoryControlStore(),
    remove: async () => {
      throw new Error("out of reach");
    },
  };
  const { guard } = await serving(gone);
  await guard.release();
  expect(guard.isValid()).toBe(false);
});

test("a start that is stopped while it waits leaves the store to its holder", async () => {
  const { control, id } = await oneAlone();
  const stop = new AbortController();
  const { parts, look } = watched((place) => place === 2 && stop.abort());
  const stopped = serveAlone(looking(control, look), { ...parts, signal: stop.signal });
  await expect(stopped).rejects.toThrow("stopped while it waited");
  expect(await leasesOf(control)).toMatchObject([{ id }]);
});

test("an instance alone leaves vacant shares of a limit to the next fleet", async () => {
  const control = memoryControlStore();
  const left = randomUUID();
  await control.register(left, instanceFactsOf());
  await control.vacate(left, { slot: 1, place: 0, of: 1 });
  const { beats } = await serving(control);
  await beats(() => control.now.read().leases[0]?.n);
  expect((await control.read()).vacant).toHaveLength(1);
});
