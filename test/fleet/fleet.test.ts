import { describe, expect, test } from "vitest";
import type { ControlChange, ControlStore } from "#src/fleet/control-store.ts";
import { type Fleet, type FleetParts, joinFleet } from "#src/fleet/fleet.ts";
import { fleetTimes, lapseMsOf } from "#src/fleet/lease.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { memoryControlStore } from "../harness/memory-control-store.ts";
import { createMachine } from "../harness/simulated-machine.ts";
import { createVirtualTime } from "../harness/virtual-time.ts";

const key = (id: string, version = 2): ControlChange => ({ kind: "key", id, version });
const lapseMs = lapseMsOf(fleetTimes);

/** Instances over one control record in memory, whose steps take a millisecond each. */
function setUp() {
  const time = createVirtualTime();
  const { now } = memoryControlStore();
  const steps: string[] = [];
  const fleets = new Map<string, Fleet>();
  let ids = 0;

  /** `fails` says which steps fail, after they happened or in their place. */
  function controlOf(name: string, fails: (step: string) => "before" | "after" | undefined): ControlStore {
    const step = <T>(called: string, happen: () => T) =>
      new Promise<T>((resolve, reject) => {
        steps.push(`${name} ${called}`);
        const failure = fails(called);
        time.at(time.now() + 1, () => {
          if (failure === "before") return reject(unavailable());
          const outcome = happen();
          if (failure === "after") reject(unavailable());
          else resolve(outcome);
        });
      });
    return {
      read: () => step("read", () => now.read()),
      register: (id, facts) => step("register", () => now.register(id, facts)),
      beat: (id, beat) => step("beat", () => now.beat(id, beat)),
      push: (changes) => step(`push ${changes.map(({ id }) => id).join()}`, () => now.push(changes)),
      bringPlanLimits: (brought) => step("bringPlanLimits", () => now.bringPlanLimits(brought)),
      remove: (id) => step("remove", () => now.remove(id)),
      vacate: (id, share) => step("vacate", () => now.vacate(id, share)),
      takeOver: (id, share) => step("takeOver", () => now.takeOver(id, share)),
      dropVacant: (slot) => step("dropVacant", () => now.dropVacant(slot)),
      removeUnchanged: (id, seen) => step("removeUnchanged", () => now.removeUnchanged(id, seen)),
    };
  }

  async function join(
    name: string,
    parts: Partial<FleetParts> & { fails?: (step: string) => "before" | "after" | undefined } = {},
  ) {
    const machine = createMachine(time, { rate: 1, startMs: 0, timerErrorMs: () => 0 });
    const calls: string[] = [];
    const joined = joinFleet({
      control: controlOf(name, parts.fails ?? (() => undefined)),
      clock: machine.clock,
      timers: machine.timers(),
      newId: () => `${name}-${++ids}`,
      facts: instanceFactsOf({ address: name }),
      times: fleetTimes,
      apply: (changes) => calls.push(`apply ${changes.map(({ seq, id }) => `${seq} ${id}`).join()}`),
      clear: () => calls.push("clear"),
      nudge: (addresses) => {
        for (const address of addresses) {
          calls.push(`nudge ${address}`);
          time.at(time.now() + 1, () => fleets.get(address)?.nudged());
        }
      },
      ...parts,
    });
    joined.catch(() => {});
    await time.runUntil(time.now() + 10);
    const fleet = await joined;
    fleets.set(name, fleet);
    return { fleet, calls, machine };
  }

  const pass = (ms: number) => time.runUntil(time.now() + ms);
  /** How long a promise takes, and how it ends, while time goes on for `ms`. */
  async function ends(promise: Promise<unknown>, ms: number) {
    const beganMs = time.now();
    let end: { readonly ms: number; readonly failed: boolean } | undefined;
    promise.then(
      () => (end = { ms: time.now() - beganMs, failed: false }),
      () => (end = { ms: time.now() - beganMs, failed: true }),
    );
    await pass(ms);
    return end;
  }
  const leases = () => now.read().leases;
  return { time, now, steps, join, pass, ends, leases };
}

describe("joining", () => {
  test("an instance holds once it registered and had a heartbeat, with nothing known from before", async () => {
    const { join, steps, leases } = setUp();
    const { fleet, calls } = await join("a");
    expect(steps).toEqual(["a register", "a beat"]);
    expect(calls).toEqual(["clear"]);
    expect(fleet.mayAdmit()).toBe(true);
    expect(leases()).toMatchObject([{ id: "a-1", n: 2 }]);
    expect(fleet.members()).toEqual({ ownId: "a-1", leases: leases() });
  });

  test.each(["register", "beat"])(
    "a store that does not take the first %s refuses the start",
    async (step) => {
      const { join, leases } = setUp();
      await expect(
        join("a", { fails: (called) => (called === step ? "before" : undefined) }),
      ).rejects.toEqual(expect.objectContaining({ reason: "UNAVAILABLE" }));
      expect(leases()).toEqual([]);
    },
  );

  test("an instance that may not join is refused in words, and leaves no record", async () => {
    const { join, leases } = setUp();
    const refused = join("a", { mayJoin: ({ leases }, ownId) => `${leases.length} ${ownId} may not` });
    await expect(refused).rejects.toEqual(new StartRefused("1 a-1 may not"));
    expect(leases()).toEqual([]);
  });

  test("one that may not join again after it was taken out says so once, beats no more, and leaves no record", async () => {
    const { join, now, leases, pass, steps } = setUp();
    let words: string | undefined;
    const events: unknown[] = [];
    const { fleet } = await join("a", {
      mayJoin: () => words,
      events: {
        onBeatFailed: (cause) => events.push(cause),
        onRefused: (said) => events.push(`${said}, holds ${fleet.mayAdmit()}`),
      },
    });
    words = "another secret";
    now.remove("a-1");
    await pass(1_000);
    expect(events).toEqual(["another secret, holds false"]);
    expect(steps.slice(-3)).toEqual(["a beat", "a register", "a remove"]);
    expect(leases()).toEqual([]);
    // Its process ends now, and its requests may still tell others of their changes.
    words = undefined;
    await Promise.all([fleet.announce([key("k")], { wait: false }), fleet.leave(), pass(1_000)]);
    expect(now.read().recent).toMatchObject([{ id: "k" }]);
    expect(leases()).toEqual([]);
    expect(fleet.mayAdmit()).toBe(false);
  });
});

test("an instance whose record went back with the database forgets everything before it acknowledges", async () => {
  const { join, now, leases, pass, ends } = setUp();
  const fenced: string[] = [];
  const { fleet, calls } = await join("a", { events: { onFenced: () => fenced.push("a") } });
  await pass(1_000);
  const restore = now.backUp();
  await fleet.announce([key("k1"), key("k2")], { wait: false });
  await pass(1_000);
  restore();
  const before = calls.length;
  // Another instance takes a right away under a number that this one thinks it knows.
  const { fleet: other } = await join("b");
  expect(await ends(other.announce([key("k3")], { wait: true }), 1_000)).toMatchObject({ failed: false });
  expect(calls.slice(before)).toContain("clear");
  expect(fenced).toEqual(["a"]);
  expect(leases().map(({ id }) => id)).not.toContain("a-1");
  expect(fleet.mayAdmit()).toBe(true);
});

test("a record that went back with the database gets no acknowledgement, even where the reply is lost", async () => {
  const { join, pass, now } = setUp();
  let isLost = false;
  const { fleet, calls } = await join("a", {
    fails: (step) => (isLost && step === "beat" ? "after" : undefined),
  });
  await pass(1_000);
  const restore = now.backUp();
  await fleet.announce([key("k1"), key("k2")], { wait: false });
  await pass(1_000);
  restore();
  isLost = true;
  const { fleet: other } = await join("b");
  const before = calls.length;
  // The first instance goes on with what it has cached: the change must wait until it can't.
  let mayAdmit: boolean | undefined;
  void other.announce([key("k3")], { wait: true }).then(() => {
    mayAdmit = fleet.mayAdmit() && !calls.slice(before).includes("clear");
  });
  await pass(20_000);
  expect(mayAdmit).toBe(false);
});

describe("the lease", () => {
  test("ends its time after the sending of the last heartbeat, and comes back with the next", async () => {
    let isCut = false;
    const { join, pass, time } = setUp();
    const { fleet } = await join("a", { fails: () => (isCut ? "before" : undefined) });
    await pass(1_000);
    isCut = true;
    // The last heartbeat that arrived was sent at most a pause before.
    await pass(fleetTimes.leaseMs - fleetTimes.beatMs - 1);
    expect(fleet.mayAdmit()).toBe(true);
    await pass(fleetTimes.beatMs + 1);
    expect(fleet.mayAdmit()).toBe(false);
    isCut = false;
    const cutMs = time.now();
    for (let ms = 0; ms < 1_000 && !fleet.mayAdmit(); ms++) await pass(1);
    expect(time.now() - cutMs).toBeLessThanOrEqual(fleetTimes.beatMs + 2);
  });

  test("does not grow by a view that could not be applied, and the change is not acknowledged", async () => {
    let isBroken = true;
    const { join, pass, now, leases } = setUp();
    const { fleet } = await join("a", {
      apply() {
        if (isBroken) throw new Error("a floor did not rise");
      },
    });
    now.push([key("k")]);
    await pass(fleetTimes.leaseMs + 10);
    expect(fleet.mayAdmit()).toBe(false);
    expect(leases()).toMatchObject([{ ack: 0 }]);
    isBroken = false;
    await pass(2 * fleetTimes.beatMs);
    expect(fleet.mayAdmit()).toBe(true);
    expect(leases()).toMatchObject([{ ack: 1 }]);
  });

  test("of an instance that was taken out is lost at once; it forgets everything, and registers under a new id", async () => {
    const { join, pass, now, leases } = setUp();
    const events: string[] = [];
    const { fleet, calls } = await join("a", {
      events: {
        onFenced: () => events.push(`fenced, holds ${fleet.mayAdmit()}`),
        onLeaseTaken: () => events.push("held"),
      },
    });
    now.remove("a-1");
    await pass(fleetTimes.beatMs + 5);
    expect(events).toEqual(["held", "fenced, holds false", "held"]);
    expect(calls).toEqual(["clear", "clear", "clear"]);
    expect(leases()).toMatchObject([{ id: "a-2" }]);
  });
});

describe("changes", () => {
  test("of another instance are applied in order and acknowledged at once after a nudge", async () => {
    const { join, pass, ends, leases } = setUp();
    const [a, b] = [await join("a"), await join("b")];
    expect(await ends(a.fleet.announce([key("k"), key("l")], { wait: true }), 100)).toEqual({
      ms: expect.closeTo(8, -1),
      failed: false,
    });
    expect(b.calls).toEqual(["clear", "apply 1 k,2 l"]);
    expect(a.calls).toEqual(["clear", "apply 1 k,2 l", "nudge b"]);
    await pass(10);
    expect(leases().map(({ ack }) => ack)).toEqual([2, 2]);
  });

  test("count as applied, and so are acknowledged, only after their view was taken", async () => {
    const { join, pass } = setUp();
    const seen: string[] = [];
    const { fleet } = await join("a", {
      onView: ({ seq }) => void seen.push(`view ${seq}`),
      apply: (changes) => void seen.push(`apply ${changes.map(({ seq }) => seq).join()}`),
    });
    await Promise.all([fleet.announce([key("k")], { wait: true }), pass(10)]);
    expect(seen.indexOf("view 1")).toBeLessThan(seen.indexOf("apply 1"));
  });

  test("a change of a key whose push was done twice, as its answer was lost, is applied once on each", async () => {
    const { join, pass, steps } = setUp();
    let lost = 0;
    const fails = (step: string) => (step.startsWith("push") && lost++ === 0 ? "after" : undefined);
    const [a, b] = [await join("a", { fails }), await join("b")];
    const announced = a.fleet.announce([key("k"), { ...key("t"), kind: "team" }], { wait: true });
    expect(await Promise.race([announced.catch(() => "failed"), pass(100)])).toBe("failed");
    await pass(fleetTimes.beatMs * 3);
    expect(steps.filter((step) => step.startsWith("a push"))).toEqual(["a push k,t", "a push k,t"]);
    for (const { calls } of [a, b]) {
      const applied = calls.flatMap((call) => /^apply (.*)/.exec(call)?.[1]?.split(",") ?? []);
      expect(applied).toEqual(["1 k", "2 t", "4 t"]);
    }
  });

  test("a lost nudge costs one pause between heartbeats, and takes nobody out", async () => {
    const { join, ends, leases } = setUp();
    const a = await join("a", { nudge() {} });
    await join("b");
    const end = await ends(a.fleet.announce([key("k")], { wait: true }), 1_000);
    expect(end?.ms).toBeLessThan(fleetTimes.beatMs * 2);
    expect(leases()).toHaveLength(2);
  });

  test("a view that does not reach back to all changes makes the instance forget everything", async () => {
    const { join, pass, now } = setUp();
    const { calls } = await join("a");
    now.push(Array.from({ length: 300 }, (_, n) => key(`k${n}`)));
    await pass(fleetTimes.beatMs);
    expect(calls.slice(0, 2)).toEqual(["clear", "clear"]);
    expect(calls[2]).toMatch(/^apply 45 k44,/);
  });

  test("are applied after their view was shown, whatever step the view came with", async () => {
    const { join, pass, now, steps } = setUp();
    const calls: string[] = [];
    const { fleet } = await join("a", {
      onView: ({ seq }) => calls.push(`view ${seq}`),
      apply: (changes) => calls.push(`apply ${changes.map(({ seq }) => seq).join()}`),
    });
    // A change that waits for a silent instance makes this one look all the time.
    now.register("dead", instanceFactsOf());
    void fleet.announce([key("k")], { wait: true });
    await pass(8);
    now.push([key("l")]);
    steps.length = 0;
    for (let n = 0; n < 100 && calls.at(-1) !== "apply 2"; n++) await pass(0.5);
    expect(steps[0]).toBe("a read");
    expect(calls.slice(-2)).toEqual(["view 2", "apply 2"]);
    expect(calls.indexOf("view 1")).toBe(calls.indexOf("apply 1") - 1);
  });

  test("announced while a push is under way share the next one, at most 128", async () => {
    const { join, steps, pass } = setUp();
    const { fleet } = await join("a");
    steps.length = 0;
    for (const id of ["a", "b"]) void fleet.announce([key(id)], { wait: true });
    await pass(0);
    for (const id of ["c", "d"]) void fleet.announce([key(id)], { wait: false });
    const many = Array.from({ length: 200 }, (_, n) => key(`k${n}`));
    await Promise.all([fleet.announce(many, { wait: true }), pass(50)]);
    const pushes = steps.filter((step) => step.startsWith("a push"));
    expect(pushes.map((push) => push.split(",").length)).toEqual([2, 2, 128, 72]);
  });

  test("whose push failed are an error to those who wait, and are pushed again with the heartbeat", async () => {
    let isCut = true;
    const failures: unknown[] = [];
    const { join, ends, now } = setUp();
    const { fleet } = await join("a", {
      fails: (step) => (isCut && step.startsWith("push") ? "before" : undefined),
      events: { onPushFailed: (cause) => failures.push(cause) },
    });
    const [waits, grants] = [
      fleet.announce([key("k"), key("l", 3)], { wait: true }),
      fleet.announce([key("l", 2), key("m")], { wait: false }),
    ];
    await grants;
    expect(await ends(waits, 300)).toEqual({ ms: 1, failed: true });
    expect(failures.length).toBeGreaterThan(0);
    isCut = false;
    await ends(waits, 300);
    expect(now.read().recent.map(({ id, version }) => `${id} ${version}`)).toEqual(["k 2", "l 3", "m 2"]);
  });

  test("do not wait for a record that was already seen unchanged for the time of a lapse", async () => {
    const { join, ends, pass, now, leases } = setUp();
    const { fleet } = await join("a", {
      fails: (step) => (step === "removeUnchanged" ? "before" : undefined),
    });
    now.register("dead", instanceFactsOf());
    await pass(lapseMs - fleetTimes.beatMs);
    expect(await ends(fleet.announce([key("k")], { wait: true }), 10)).toBeUndefined();
    await pass(2 * fleetTimes.beatMs);
    expect((await ends(fleet.announce([key("l")], { wait: true }), 100))?.ms).toBeLessThan(10);
    expect(leases()).toMatchObject([{ id: "a-1" }, { id: "dead" }]);
  });

  test("wait for a silent instance until its lease is over: the time of a lapse after its last heartbeat", async () => {
    const silent: string[][] = [];
    const { join, ends, now } = setUp();
    const { fleet } = await join("a", {
      events: { onSilent: (all) => silent.push(all.map(({ id }) => id)) },
    });
    now.register("dead", instanceFactsOf());
    const end = await ends(fleet.announce([key("k")], { wait: true }), 10_000);
    expect(silent).toEqual([["dead"]]);
    expect(end?.failed).toBe(false);
    expect(end?.ms).toBeGreaterThan(lapseMs);
    expect(end?.ms).toBeLessThan(lapseMs + 10);
  });

  test("two instances that wait for one silent instance both wait until its lease is over, and leave its record alone", async () => {
    const { join, ends, pass, now } = setUp();
    const [a, b] = [await join("a"), await join("b")];
    now.register("dead", instanceFactsOf());
    void a.fleet.announce([key("k")], { wait: true });
    await pass(520);
    expect(now.read().leases.map(({ id }) => id)).toContain("dead");
    const end = await ends(b.fleet.announce([key("k")], { wait: true }), 10_000);
    const leftMs = lapseMs - 520;
    expect(end?.ms).toBeGreaterThan(leftMs - 10);
    expect(end?.ms).toBeLessThan(leftMs + fleetTimes.beatMs);
  });

  test("take no healthy instance for dead that is slow to acknowledge, and wait for it", async () => {
    const silent: unknown[] = [];
    const { join, ends, pass, now } = setUp();
    const { fleet } = await join("a", { events: { onSilent: (all) => silent.push(all) } });
    now.register("slow", instanceFactsOf());
    const passed = fleet.announce([key("k")], { wait: true });
    for (let n = 0; n < 4; n++) {
      await pass(900);
      now.beat("slow", { ack: 0, nSeen: 0 });
    }
    expect(await ends(passed, 100)).toBeUndefined();
    now.beat("slow", { ack: 1, nSeen: 0 });
    expect(await ends(passed, fleetTimes.beatMs + 10)).toMatchObject({ failed: false });
    expect(now.read().leases.map(({ id }) => id)).toContain("slow");
    expect(silent).toEqual([]);
  });

  test("wait no longer for an instance whose heartbeats go on without an acknowledgement: each was answered with the change", async () => {
    const { join, ends, now, time } = setUp();
    const { fleet } = await join("a");
    now.register("deaf", instanceFactsOf());
    for (let ms = 100; ms < 10_000; ms += 100) {
      time.at(time.now() + ms, () => void now.beat("deaf", { ack: 0, nSeen: 0 }));
    }
    const end = await ends(fleet.announce([key("k")], { wait: true }), 10_000);
    expect(end?.failed).toBe(false);
    expect(end?.ms).toBeLessThan(lapseMs + 10);
  });

  test("get their OK also where the store is gone after the push", async () => {
    const { join, ends, now } = setUp();
    const { fleet } = await join("a", {
      fails: (step) => (now.read().seq > 0 && !step.startsWith("push") ? "before" : undefined),
    });
    now.register("dead", instanceFactsOf());
    const end = await ends(fleet.announce([key("k")], { wait: true }), 10_000);
    expect(end).toEqual({ ms: expect.closeTo(lapseMs, -2), failed: false });
  });

  test("do not wait for what this process itself registered earlier", async () => {
    const { join, ends, pass, now, leases } = setUp();
    let loses = false;
    const { fleet } = await join("a", {
      fails: (step) => (step === "remove" ? "before" : loses && step === "register" ? "after" : undefined),
    });
    loses = true;
    now.remove("a-1");
    await pass(2 * fleetTimes.beatMs);
    loses = false;
    await pass(2 * fleetTimes.beatMs);
    expect((await ends(fleet.announce([key("k")], { wait: true }), 5))?.failed).toBe(false);
    expect(leases().length).toBeGreaterThan(1);
  });

  test("are still looked after when a view that a barrier read could not be applied", async () => {
    let isBroken = false;
    const { join, ends, pass, now } = setUp();
    const { fleet } = await join("a", {
      // Without heartbeats, only the looks of the barrier see an acknowledgement.
      fails: (step) => (step === "beat" && now.read().seq > 0 ? "before" : undefined),
      apply() {
        if (isBroken) throw new Error("a floor did not rise");
      },
    });
    now.register("slow", instanceFactsOf());
    const passed = fleet.announce([key("k")], { wait: true });
    await pass(5);
    isBroken = true;
    now.push([key("l")]);
    await pass(30);
    isBroken = false;
    now.beat("slow", { ack: 2, nSeen: 0 });
    expect(await ends(passed, fleetTimes.beatMs)).toMatchObject({ failed: false });
  });
});

describe("records of others", () => {
  test("are removed once they were seen unchanged for the time of a lapse, and not before", async () => {
    const { join, pass, now, leases } = setUp();
    await join("a");
    now.register("dead", instanceFactsOf());
    await pass(lapseMs);
    expect(leases()).toHaveLength(2);
    now.beat("dead", { ack: 0, nSeen: 0 });
    await pass(lapseMs);
    expect(leases()).toHaveLength(2);
    await pass(2 * fleetTimes.beatMs + 5);
    expect(leases()).toHaveLength(1);
  });

  test("are left alone after an outage of the store, until all had the time to come back", async () => {
    let isDown = false;
    const { join, pass, leases } = setUp();
    const fails = () => (isDown ? "before" : undefined);
    await join("a", { fails });
    await pass(fleetTimes.beatMs / 2);
    await join("b", { fails });
    await pass(1_000);
    isDown = true;
    await pass(2 * lapseMs);
    isDown = false;
    await pass(fleetTimes.beatMs + 10);
    expect(leases().map(({ id }) => id)).toEqual(["a-1", "b-2"]);
  });

  test("of instances that did not come back after an outage are removed the time of a lapse later", async () => {
    let isDown = false;
    const { join, pass, now, leases } = setUp();
    await join("a", { fails: () => (isDown ? "before" : undefined) });
    now.register("dead", instanceFactsOf());
    await pass(1_000);
    isDown = true;
    await pass(lapseMs);
    isDown = false;
    await pass(lapseMs - fleetTimes.beatMs);
    expect(leases()).toHaveLength(2);
    await pass(4 * fleetTimes.beatMs);
    expect(leases()).toHaveLength(1);
  });

  test("under which this process tried to register are removed at once", async () => {
    let fails = false;
    const { join, pass, now, leases } = setUp();
    await join("a", { fails: (step) => (fails && step === "register" ? "after" : undefined) });
    fails = true;
    now.remove("a-1");
    await pass(1_000);
    expect(leases().length).toBeGreaterThan(3);
    fails = false;
    await pass(fleetTimes.beatMs + 20);
    expect(leases()).toHaveLength(1);
  });
});

describe("the heartbeat", () => {
  test("comes at its pause, also where the store fails and every answer is followed by a nudge", async () => {
    const failures: unknown[] = [];
    const { join, pass, steps } = setUp();
    let isCut = false;
    const { fleet } = await join("a", {
      fails: () => (isCut ? "before" : undefined),
      events: {
        onBeatFailed(cause) {
          failures.push(cause);
        },
      },
    });
    const beatsIn = async (ms: number) => {
      const before = steps.length;
      for (let passed = 0; passed < ms; passed++) {
        if (isCut) fleet.nudged();
        await pass(1);
      }
      return steps.length - before;
    };
    expect(await beatsIn(10 * fleetTimes.beatMs)).toBe(10);
    isCut = true;
    // The first nudge comes before the first failure.
    expect(await beatsIn(10 * fleetTimes.beatMs)).toBe(11);
    expect(failures.length).toBeGreaterThan(9);
  });
});

describe("leaving", () => {
  test("holds no more, ends the heartbeats and removes the record, so that no later change waits", async () => {
    const { join, pass, ends, steps, leases } = setUp();
    const [a, b] = [await join("a"), await join("b")];
    const left = b.fleet.leave();
    expect(b.fleet.mayAdmit()).toBe(false);
    await Promise.all([left, pass(5)]);
    expect(leases().map(({ id }) => id)).toEqual(["a-1"]);
    expect((await ends(a.fleet.announce([key("k")], { wait: true }), 100))?.ms).toBeLessThan(10);
    steps.length = 0;
    await pass(1_000);
    expect(steps.filter((step) => step.startsWith("b"))).toEqual([]);
    await Promise.all([b.fleet.leave(), pass(5)]);
  });

  test("during a heartbeat keeps its answer from bringing the lease back", async () => {
    const { join, pass, steps, leases } = setUp();
    const { fleet } = await join("a");
    const beats = () => steps.filter((step) => step === "a beat").length;
    const before = beats();
    for (let n = 0; n < 1_000 && beats() === before; n++) await pass(0.5);
    await Promise.all([fleet.leave(), pass(10)]);
    expect(fleet.mayAdmit()).toBe(false);
    expect(leases()).toEqual([]);
  });
});

/** All that it admitted is in the shared log. */
const hands: Partial<FleetParts> = { handsShareOver: () => true };

describe("the place among those that share a limit", () => {
  test("is none for a minute after joining, and then the place by order of registration", async () => {
    const { join, pass } = setUp();
    const a = await join("a");
    await pass(30_000);
    const b = await join("b");
    await pass(30_000);
    expect([a.fleet.sharePlace(), b.fleet.sharePlace()]).toEqual([{ place: 0, of: 2 }, undefined]);
    await pass(30_000);
    expect(b.fleet.sharePlace()).toEqual({ place: 1, of: 2 });
  });

  test("counts an instance that left for a minute more, and then closes the gap", async () => {
    const { join, pass } = setUp();
    const [a, b] = [await join("a"), await join("b")];
    await pass(fleetTimes.shareMs);
    await Promise.all([a.fleet.leave(), pass(300)]);
    expect(a.fleet.sharePlace()).toBeUndefined();
    await pass(fleetTimes.shareMs - 600);
    expect(b.fleet.sharePlace()).toEqual({ place: 1, of: 2 });
    await pass(600);
    expect(b.fleet.sharePlace()).toEqual({ place: 0, of: 1 });
  });

  test("of one that left in good order goes to the next that joins, at once, and the others count both as one", async () => {
    const { join, pass } = setUp();
    const names = ["a", "b", "c"];
    const fleets = [];
    for (const name of names) fleets.push((await join(name, hands)).fleet);
    await pass(fleetTimes.shareMs);
    for (const [place, name] of names.entries()) {
      await Promise.all([fleets[place]!.leave(), pass(300)]);
      fleets[place] = (await join(`${name}'`, hands)).fleet;
      await pass(500);
      expect(fleets.map((fleet) => fleet.sharePlace())).toEqual(
        names.map((_, each) => ({ place: each, of: 3 })),
      );
    }
    await pass(3 * fleetTimes.shareMs);
    expect(fleets.map((fleet) => fleet.sharePlace())).toEqual(
      names.map((_, each) => ({ place: each, of: 3 })),
    );
  });

  test("of one that joined before another left is that one's once it has left", async () => {
    const { join, pass } = setUp();
    const [a, b] = [await join("a", hands), await join("b", hands)];
    await pass(fleetTimes.shareMs);
    const late = await join("c", hands);
    await pass(1_000);
    expect([late.fleet.sharePlace(), b.fleet.sharePlace()]).toEqual([undefined, { place: 1, of: 3 }]);
    await Promise.all([a.fleet.leave(), pass(1_000)]);
    // The one that left knew of three.
    expect([late.fleet.sharePlace(), b.fleet.sharePlace()]).toEqual([
      { place: 0, of: 3 },
      { place: 1, of: 2 },
    ]);
  });

  test("is nobody's where the one that left admitted something that Redis does not count, or had none", async () => {
    const { join, pass } = setUp();
    const [a, b] = [await join("a"), await join("b", hands)];
    await pass(fleetTimes.shareMs);
    const young = await join("c", hands);
    await pass(500);
    await Promise.all([a.fleet.leave(), young.fleet.leave(), pass(300)]);
    const { fleet } = await join("d", hands);
    await pass(1_000);
    expect([fleet.sharePlace(), b.fleet.sharePlace()]).toEqual([undefined, { place: 1, of: 4 }]);
  });

  test("may be taken over for a minute, and counts for another one", async () => {
    const { join, pass, now } = setUp();
    const [a, b] = [await join("a", hands), await join("b", hands)];
    await pass(fleetTimes.shareMs);
    await Promise.all([a.fleet.leave(), pass(fleetTimes.shareMs - 500)]);
    expect(now.read().vacant).toEqual([{ slot: 1, place: 0, of: 2 }]);
    await pass(1_000);
    expect(now.read().vacant).toBeUndefined();
    expect(b.fleet.sharePlace()).toEqual({ place: 1, of: 2 });
    await pass(fleetTimes.shareMs);
    expect(b.fleet.sharePlace()).toEqual({ place: 0, of: 1 });
  });

  test("counts an instance that was taken out for a minute more", async () => {
    const { join, pass, now } = setUp();
    now.register("dead", instanceFactsOf());
    const { fleet } = await join("a");
    now.remove("dead");
    await pass(fleetTimes.shareMs - 200);
    expect(fleet.sharePlace()).toBeUndefined();
    await pass(1_000);
    expect(fleet.sharePlace()).toEqual({ place: 0, of: 1 });
  });

  test("of an instance that was taken out begins anew, and the others count its old and its new record", async () => {
    const { join, pass, now } = setUp();
    const [a, b] = [await join("a"), await join("b")];
    await pass(fleetTimes.shareMs);
    now.remove("a-1");
    await pass(600);
    expect([a.fleet.sharePlace(), b.fleet.sharePlace()]).toEqual([undefined, { place: 1, of: 3 }]);
  });
});
