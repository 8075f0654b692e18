import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { InstanceFacts, LeaseRecord } from "#src/fleet/control-store.ts";
import { fleetTimes } from "#src/fleet/lease.ts";
import { awaitMayJoin, factsBefore, refusalToJoin, serviceTokenMark } from "#src/fleet/who-may-join.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { memoryControlStore } from "../harness/memory-control-store.ts";

const leaseOf = (order: number, lease: Partial<LeaseRecord> = {}): LeaseRecord => ({
  ...{ id: `i${order}`, n: 1, ack: 0, order, facts: instanceFactsOf() },
  ...lease,
});

describe("an instance may join", () => {
  const cases: Record<string, [own: Partial<InstanceFacts>, others: Partial<InstanceFacts>[]]> = {
    "as the first": [{}, []],
    "others like it": [{}, [{}, {}]],
    "others at other addresses, or without one": [{ address: null }, [{ address: "10.0.0.2:8081" }]],
    "others of an older version, as the first of an upgrade": [{ protocol: 2, schema: 8 }, [{}, {}]],
    "with the new secret last, in the first round of its change": [
      { secretVersions: ["old", "new"] },
      [{ secretVersions: ["old"] }],
    ],
    "without the new secret yet, while others have it last": [
      { secretVersions: ["old"] },
      [{ secretVersions: ["old", "new"] }],
    ],
    "with the new secret first, in the second round": [
      { secretVersions: ["new", "old"] },
      [{ secretVersions: ["old", "new"] }, { secretVersions: ["new", "old"] }],
    ],
    "with the new secret last, while others have it first": [
      { secretVersions: ["old", "new"] },
      [{ secretVersions: ["new", "old"] }],
    ],
    "without the old secret, in the third round": [
      { secretVersions: ["new"] },
      [{ secretVersions: ["new", "old"] }, { secretVersions: ["new"] }],
    ],
  };
  test.each(Object.entries(cases))("%s", (_, [own, others]) => {
    expect(refusalToJoin(instanceFactsOf(own), others.map(instanceFactsOf))).toBeUndefined();
  });
});

describe("an instance may not join", () => {
  const cases: Record<string, [own: Partial<InstanceFacts>, other: Partial<InstanceFacts>, said: RegExp]> = {
    "where it would not understand the protocol": [{ protocol: 1 }, { protocol: 2 }, /newer version/],
    "where the data has a newer schema": [{ schema: 7 }, { schema: 8 }, /newer version/],
    "with another service token": [
      { serviceTokenMark: serviceTokenMark("one") },
      { serviceTokenMark: serviceTokenMark("other") },
      /another service token.*KEYRUN_SERVICE_TOKEN/,
    ],
    "with another key prefix": [
      { keyPrefix: "abc" },
      {},
      /keys begin with svc_, and those of this one with abc_.*KEYRUN_KEY_PREFIX/,
    ],
    "with other secrets": [
      { secretVersions: ["new"] },
      { secretVersions: ["old"] },
      /not here \(version old\).*KEYRUN_SECRET/,
    ],
    "without the secret that others make keys with": [
      { secretVersions: ["old"] },
      { secretVersions: ["new", "old"] },
      /not here \(version new\)/,
    ],
    "if it would make keys that others can't read": [
      { secretVersions: ["new", "old"] },
      { secretVersions: ["old"] },
      /newest service secret here \(version new\).*Put it last/,
    ],
    "with the old secret first, when another has dropped it": [
      { secretVersions: ["old", "new"] },
      { secretVersions: ["new"] },
      /newest service secret here \(version old\)/,
    ],
  };
  test.each(Object.entries(cases))("%s", (_, [own, other, said]) => {
    const words = refusalToJoin(instanceFactsOf(own), [instanceFactsOf(own), instanceFactsOf(other)]);
    expect(words).toMatch(said);
    expect(words).toMatch(/^This Keyrun may not join the fleet of this database: /);
  });
});

test("a fleet has at most 64 instances", () => {
  const others = Array.from({ length: 64 }, () => instanceFactsOf());
  expect(refusalToJoin(instanceFactsOf(), others.slice(1))).toBeUndefined();
  expect(refusalToJoin(instanceFactsOf(), others)).toMatch(/has 64 instances.*Stop one/);
});

test("of two instances that can't serve together, the one that joined later yields", () => {
  const facts = (keyPrefix: string) => instanceFactsOf({ keyPrefix });
  const leases = [
    leaseOf(2, { facts: facts("first") }),
    leaseOf(3, { facts: facts("own") }),
    leaseOf(4, { facts: facts("later") }),
  ];
  expect(factsBefore(leases, "i3")).toEqual([facts("first")]);
  expect(factsBefore(leases, "i2")).toEqual([]);
  expect(factsBefore(leases)).toEqual([facts("first"), facts("own"), facts("later")]);
});

test("one that comes back after it was taken out yields to those that joined meanwhile, however long it was there before", () => {
  const facts = (keyPrefix: string) => instanceFactsOf({ keyPrefix });
  const leases = [leaseOf(2, { facts: facts("meanwhile") }), leaseOf(3, { facts: facts("back") })];
  expect(factsBefore(leases, "i3")).toEqual([facts("meanwhile")]);
  expect(factsBefore(leases, "i2")).toEqual([]);
});

test("equal service tokens have equal marks, other ones others, and no mark holds the token", () => {
  expect(serviceTokenMark("a-token")).toBe(serviceTokenMark("a-token"));
  expect(serviceTokenMark("a-token")).not.toBe(serviceTokenMark("A-token"));
  expect(serviceTokenMark("a-token")).toMatch(/^[0-9a-f]{16}$/);
});

describe("records that a crash left", () => {
  /** The clock moves by the pause of a heartbeat with each look; the real pause is short. */
  async function crashed(looked: (place: number, id: string) => unknown = () => {}) {
    const control = memoryControlStore();
    const id = randomUUID();
    await control.register(id, instanceFactsOf({ serviceTokenMark: "of-before" }));
    const clock = createManualClock();
    const waits: number[] = [];
    let looks = 0;
    const join = (facts: InstanceFacts) =>
      awaitMayJoin({
        clock,
        facts,
        redisMark: undefined,
        times: { ...fleetTimes, beatMs: 1 },
        events: { onWaiting: (waitMsMax) => waits.push(waitMsMax) },
        control: {
          ...control,
          async read() {
            looks += 1;
            if (looks > 1) clock.advance(250);
            await looked(looks, id);
            return control.read();
          },
        },
      });
    return { control, join, waits, looks: () => looks };
  }

  test("hold an instance with other settings up no longer than a lapse, and then are gone", async () => {
    const { control, join, waits, looks } = await crashed();
    await join(instanceFactsOf());
    expect(waits).toHaveLength(1);
    expect(looks()).toBe(22);
    expect((await control.read()).leases).toEqual([]);
  });

  test("hold up no instance that may join, and stay for the others to remove", async () => {
    const { control, join, waits, looks } = await crashed();
    await join(instanceFactsOf({ serviceTokenMark: "of-before" }));
    expect({ waits, looks: looks() }).toEqual({ waits: [], looks: 1 });
    expect((await control.read()).leases).toHaveLength(1);
  });

  test("are no such records if their instance lives: then the words say why, at its next heartbeat", async () => {
    const { control, join, looks } = await crashed((_, id) => control.beat(id, { ack: 0, nSeen: 0 }));
    const refused = join(instanceFactsOf());
    await expect(refused).rejects.toBeInstanceOf(StartRefused);
    await expect(refused).rejects.toThrow(/another service token/);
    expect(looks()).toBe(2);
    expect((await control.read()).leases).toHaveLength(1);
  });
});
