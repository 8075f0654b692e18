import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import type { Clock } from "#src/base/clock.ts";
import {
  awaitNoFleet,
  awaitNoLoneInstance,
  registerBesideNoLoneInstance,
} from "#src/fleet/alone-or-fleet.ts";
import type { ControlStore } from "#src/fleet/control-store.ts";
import type { InstanceRecordStore } from "#src/fleet/instance-record-store.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { memoryControlStore } from "../harness/memory-control-store.ts";
import { memoryInstanceRecord } from "../harness/memory-instance-record.ts";

/** The clock moves by a second during each look, whose beginning counts. The pauses are short. */
function watched(looked: (place: number) => unknown = () => {}) {
  let nowMs = 1_000_000;
  let looks = 0;
  const clock: Clock = { monotonicMs: () => nowMs, unixMs: () => 0 };
  const waits: number[] = [];
  const look = async () => {
    if (looks > 0) nowMs += 1_000;
    looks += 1;
    await looked(looks);
  };
  const parts = {
    clock,
    times: { renewMs: 1, lapseMs: 15_000, waitMsMax: 16_000 },
    events: { onWaiting: (waitMsMax: number) => waits.push(waitMsMax) },
  };
  return { parts, look, waits, looks: () => looks };
}

const looking = (control: ControlStore, look: () => Promise<void>): ControlStore => ({
  ...control,
  async read() {
    await look();
    return control.read();
  },
});

const finding = (records: InstanceRecordStore, look: () => Promise<void>): InstanceRecordStore => ({
  ...records,
  async find() {
    await look();
    return records.find();
  },
});

test("without a record of the other side, neither waits", async () => {
  const { parts, look, waits, looks } = watched();
  await awaitNoFleet({ ...parts, control: looking(memoryControlStore(), look) });
  const records = finding(memoryInstanceRecord(), look);
  await awaitNoLoneInstance({ ...parts, records, newIncarnation: randomUUID });
  expect({ waits, looks: looks() }).toEqual({ waits: [], looks: 2 });
});

test("a start alone beside a live fleet waits, says so once, and is refused with what to do", async () => {
  const control = memoryControlStore();
  const ids = [randomUUID(), randomUUID()];
  for (const id of ids) await control.register(id, instanceFactsOf());
  const { parts, look, waits } = watched(() =>
    Promise.all(ids.map((id) => control.beat(id, { ack: 0, nSeen: 0 }))),
  );
  const refused = awaitNoFleet({ ...parts, control: looking(control, look) });
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
    if (place < 5) await control.beat(ids[1]!, { ack: 0, nSeen: 0 });
    if (place === 2) await control.remove(ids[0]!);
    if (place === 5) await control.remove(ids[1]!);
  });
  await awaitNoFleet({ ...parts, control: looking(control, look) });
  expect(looks()).toBe(5);
});

test("records of a fleet that crashed hold a start up for the time of a lapse, and can't come back", async () => {
  const control = memoryControlStore();
  const [live, fenced] = [randomUUID(), randomUUID()];
  for (const id of [live, fenced]) await control.register(id, instanceFactsOf());
  control.now.fence(fenced);
  const { parts, look, looks } = watched();
  await awaitNoFleet({ ...parts, control: looking(control, look) });
  expect(looks()).toBe(16);
  expect((await control.read()).leases).toEqual([]);
  expect(await control.beat(live, { ack: 0, nSeen: 0 })).toBeUndefined();
});

test("a heartbeat during the wait restarts the count of a lapse", async () => {
  const control = memoryControlStore();
  const id = randomUUID();
  await control.register(id, instanceFactsOf());
  const { parts, look } = watched((place) => place === 10 && control.beat(id, { ack: 0, nSeen: 0 }));
  const refused = awaitNoFleet({ ...parts, control: looking(control, look) });
  await expect(refused).rejects.toBeInstanceOf(StartRefused);

  const {
    parts: next,
    look: nextLook,
    looks,
  } = watched((place) => place <= 2 && control.beat(id, { ack: 0, nSeen: 0 }));
  await awaitNoFleet({
    ...next,
    times: { ...next.times, waitMsMax: 60_000 },
    control: looking(control, nextLook),
  });
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
      await control.beat(id, { ack: 0, nSeen: 0 });
      return control.removeUnchanged(...given);
    },
  };
  await expect(awaitNoFleet({ ...parts, control: waking })).rejects.toBeInstanceOf(StartRefused);
  expect((await control.read()).leases).toHaveLength(1);
});

test("a start in a fleet beside a lone instance waits, says so once, and is refused with what to do", async () => {
  const records = memoryInstanceRecord();
  await records.create("lone");
  const { parts, look, waits } = watched(() => records.renew("lone"));
  const refused = awaitNoLoneInstance({
    ...parts,
    records: finding(records, look),
    newIncarnation: randomUUID,
  });
  await expect(refused).rejects.toThrow(
    /A Keyrun without KEYRUN_REDIS_URL serves this MongoDB database alone .* last 16 s\. Stop it/,
  );
  await expect(refused).rejects.toBeInstanceOf(StartRefused);
  expect(waits).toEqual([16_000]);
  expect(await records.find()).toMatchObject({ incarnation: "lone" });
});

test("the record of a lone instance that crashed holds a fleet up for the time of a lapse, and can't come back", async () => {
  const records = memoryInstanceRecord();
  await records.create("lone");
  const { parts, look, looks } = watched();
  await awaitNoLoneInstance({ ...parts, records: finding(records, look), newIncarnation: randomUUID });
  expect(looks()).toBe(17);
  expect(await records.find()).toBeUndefined();
  expect(await records.renew("lone")).toBe(false);
});

test("a start that is stopped while it waits ends without the store", async () => {
  const control = memoryControlStore();
  await control.register(randomUUID(), instanceFactsOf());
  const stop = new AbortController();
  const { parts, look, looks } = watched((place) => place === 3 && stop.abort());
  const stopped = awaitNoFleet({ ...parts, signal: stop.signal, control: looking(control, look) });
  await expect(stopped).rejects.toThrow(/was stopped/);
  expect(looks()).toBe(3);
});

test("an instance that registers while another serves alone is not registered, also when it comes back", async () => {
  const [control, records] = [memoryControlStore(), memoryInstanceRecord()];
  const fleet = registerBesideNoLoneInstance(control, records, async () => {});
  const before = randomUUID();
  expect((await fleet.register(before, instanceFactsOf())).leases).toHaveLength(1);
  await control.remove(before);
  await records.create("lone");
  await expect(fleet.register(randomUUID(), instanceFactsOf())).rejects.toMatchObject({
    reason: "UNAVAILABLE",
  });
  expect((await control.read()).leases).toEqual([]);
  await records.remove("lone");
  // The two tries that were refused took no place in the order.
  const { leases } = await fleet.register(randomUUID(), instanceFactsOf());
  expect(leases).toMatchObject([{ order: 2 }]);
});

test("one that registers right before another begins to serve alone takes its record back", async () => {
  const [control, records] = [memoryControlStore(), memoryInstanceRecord()];
  const beginning: ControlStore = {
    ...control,
    async register(...given) {
      await records.create("lone");
      return control.register(...given);
    },
  };
  const fleet = registerBesideNoLoneInstance(beginning, records, async () => {});
  await expect(fleet.register(randomUUID(), instanceFactsOf())).rejects.toMatchObject({
    reason: "UNAVAILABLE",
  });
  expect((await control.read()).leases).toEqual([]);
});

test("one that registers on a database that may not be served by then takes its record back", async () => {
  const [control, records] = [memoryControlStore(), memoryInstanceRecord()];
  const unfit = new StartRefused("a part of a copy");
  const fleet = registerBesideNoLoneInstance(control, records, async () => {
    // Asked after the registration: what comes from here on sees the record.
    expect((await control.read()).leases).toHaveLength(1);
    throw unfit;
  });
  await expect(fleet.register(randomUUID(), instanceFactsOf())).rejects.toBe(unfit);
  expect((await control.read()).leases).toEqual([]);
});
