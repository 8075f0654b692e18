import { describe, expect, test } from "vitest";
import { fleetTimes } from "#src/fleet/lease.ts";
import { type Mutant, mutants, unmutated } from "./mutants.ts";
import { createWorld, type World } from "./world.ts";

const times = { ...fleetTimes, leaseMs: 1_000, beatMs: 100 };

interface Story {
  readonly rates?: readonly number[];
  readonly clockRateError?: number;
  readonly ttlMs?: number;
  readonly recentMax?: number;
  readonly timeoutMs?: number;
  readonly restartMs?: number;
  readonly isNudged?: boolean;
  /** What happens, by the times at which it does. All instances have admitted `key` at 400. */
  readonly run: (world: World, rules: Rules) => void;
}

/** Delays of single calls: the first rule that fits a call is used up by it. */
type Rules = {
  readonly call: string;
  readonly machine: number;
  readonly requestMs?: number | undefined;
  readonly answerMs?: number | undefined;
}[];

/** Plays a story with delays of a millisecond, and asks every instance for `key` all the time. */
async function play(mutant: Mutant, story: Story) {
  const rules: Rules = [];
  const world = createWorld({
    times: { ...times, clockRateError: story.clockRateError ?? times.clockRateError },
    mutant,
    rates: story.rates ?? [1, 1, 1],
    ttlMs: story.ttlMs ?? 60_000,
    recentMax: story.recentMax ?? 256,
    timeoutMs: story.timeoutMs ?? 5_000,
    legsOf(call, machine) {
      const at = rules.findIndex((rule) => rule.call === call && rule.machine === machine);
      return { requestMs: 1, answerMs: 1, ...(at >= 0 && rules.splice(at, 1)[0]) };
    },
    nudgeMs: () => (story.isNudged === false ? undefined : 1),
    timerErrorMs: () => 0,
    restartMs: () => story.restartMs ?? 50,
  });
  for (const index of [0, 1, 2]) world.start(index);
  for (const index of [0, 1, 2]) world.time.at(400, () => world.request(index, "key"));
  story.run(world, rules);
  await world.time.runUntil(10_000);
  return world;
}

/** Requests from 0 ms on, every 10 ms, as by a client that goes on after the revocation. */
function ask(world: World, machine: number, { fromMs, toMs }: { fromMs: number; toMs: number }): void {
  for (let ms = fromMs; ms <= toMs; ms += 10) world.time.at(ms, () => world.request(machine, "key"));
}

/** Instance 1 is cut off from the store, and the key is revoked on instance 0. */
function cutOff(world: World): void {
  world.time.at(500, () => world.setCut(1, true));
  world.time.at(501, () => world.revoke(0, "key"));
  ask(world, 1, { fromMs: 501, toMs: 3_000 });
}

const stories: Record<keyof typeof mutants, Story> = {
  "no barrier at all": { run: cutOff },
  "serving without a lease": { run: cutOff },
  "a silent peer is assumed dead before its lease is over": { run: cutOff },
  "a lapse counted from the first heartbeat": {
    run(world) {
      // All have had heartbeats for longer than a lapse.
      world.time.at(2_000, () => world.setCut(1, true));
      world.time.at(2_001, () => world.revoke(0, "key"));
      ask(world, 1, { fromMs: 2_001, toMs: 4_500 });
    },
  },
  "a write that goes around the one port": {
    run(world) {
      world.time.at(501, () => world.revoke(0, "key"));
      ask(world, 1, { fromMs: 501, toMs: 3_000 });
    },
  },
  "a rotation that ends the old key around the one port": {
    run(world) {
      world.time.at(501, () => world.rotate(0, "key", { hasOverlap: true }));
      ask(world, 1, { fromMs: 501, toMs: 3_000 });
    },
  },
  "a rotation that ends the old key as a change that grants": {
    run(world) {
      world.time.at(500, () => world.setCut(1, true));
      world.time.at(501, () => world.rotate(0, "key", { hasOverlap: false }));
      ask(world, 1, { fromMs: 501, toMs: 3_000 });
    },
  },
  "key reads that may be stale": {
    run(world) {
      world.time.at(500, () => world.revoke(0, "key"));
      world.time.at(560, () => world.crash(1));
      ask(world, 1, { fromMs: 561, toMs: 3_000 });
    },
  },
  "a second revoke returns early": {
    run(world) {
      cutOff(world);
      world.time.at(520, () => world.revoke(2, "key"));
    },
  },
  "the record of a silent peer is removed before its lease is over": {
    run(world) {
      cutOff(world);
      world.time.at(800, () => world.revoke(2, "key"));
    },
  },
  "the push comes before the key's write": {
    run(world, rules) {
      world.time.at(500, () => {
        rules.push({ call: "write key", machine: 0, requestMs: 1_000 });
        world.revoke(0, "key");
      });
      // The new process registers after the push, and reads the key before its write.
      world.time.at(600, () => world.crash(1));
      ask(world, 1, { fromMs: 600, toMs: 4_000 });
    },
  },
  "an acknowledgement before the change is applied": {
    run(world, rules) {
      world.time.at(500, () => world.revoke(0, "key"));
      // The first heartbeat after the push, at 503, has a slow answer.
      world.time.at(503, () => rules.push({ call: "beat", machine: 1, answerMs: 600 }));
      ask(world, 1, { fromMs: 503, toMs: 3_000 });
    },
  },
  "a fill that meets no floor": {
    run(world, rules) {
      world.time.at(500, () => {
        rules.push({ call: "find key", machine: 1, answerMs: 300 });
        world.request(1, "late");
      });
      world.time.at(510, () => world.revoke(0, "late"));
      for (let ms = 511; ms < 2_000; ms += 10) world.time.at(ms, () => world.request(1, "late"));
    },
  },
  "a lease counted from the answer": {
    run(world, rules) {
      // The last heartbeat that the store gets was sent before the push; its answer is slow.
      world.time.at(500, () =>
        rules.push(
          { call: "beat", machine: 1, answerMs: 600 },
          { call: "beat", machine: 1, requestMs: undefined },
        ),
      );
      world.time.at(510, () => world.revoke(0, "key"));
      // Otherwise its wall clock would end a lease that the other clock counts from the answer.
      world.time.at(520, () => world.stepWall(1, -3_600_000));
      ask(world, 1, { fromMs: 511, toMs: 3_000 });
    },
  },
  "an instance's id used again after a restart": {
    restartMs: 1_090,
    isNudged: false,
    run(world) {
      // The new process has the same n as the old one when the key is revoked.
      world.time.at(50, () => world.crash(1));
      world.time.at(1_146, () => world.request(1, "key"));
      world.time.at(1_151, () => world.revoke(0, "key"));
      ask(world, 1, { fromMs: 1_152, toMs: 3_000 });
    },
  },
  "a gap in the recent changes ignored": {
    recentMax: 1,
    isNudged: false,
    run(world) {
      world.time.at(510, () => world.revoke(0, "key"));
      world.time.at(520, () => world.revoke(0, "other"));
      ask(world, 1, { fromMs: 511, toMs: 3_000 });
    },
  },
  "no margin for the drift of clocks": {
    rates: [1.1, 0.9, 1],
    clockRateError: 0.1,
    run(world) {
      world.time.at(461, () => world.setCut(1, true));
      world.time.at(1_390, () => world.revoke(0, "key"));
      ask(world, 1, { fromMs: 1_391, toMs: 3_000 });
    },
  },
  "a registration tried again with the same id": {
    timeoutMs: 80,
    run(world, rules) {
      world.time.at(450, () => {
        world.control.remove(world.control.read().leases.find(({ facts }) => facts.address === "1")!.id);
        // Attempts are made from 506 to 1604, and happen; the answer to the one at 1704 arrives.
        for (let n = 0; n < 12; n++) rules.push({ call: "register", machine: 1, answerMs: undefined });
      });
      world.time.at(1_707, () => world.request(1, "key"));
      world.time.at(1_711, () => world.revoke(0, "key"));
      ask(world, 1, { fromMs: 1_712, toMs: 4_000 });
    },
  },
  "leases by the wall clock": {
    run(world) {
      cutOff(world);
      world.time.at(502, () => world.stepWall(1, -3_600_000));
    },
  },
  "a lifetime that a read makes longer": {
    ttlMs: 500,
    run(world) {
      ask(world, 1, { fromMs: 410, toMs: 2_000 });
      world.time.at(2_001, () => world.revoke(0, "key"));
    },
  },
};

describe.each(Object.entries(stories))("%s", (name, story) => {
  test("the protocol holds", async () => {
    const world = await play(unmutated, story);
    expect(world.violations).toEqual([]);
    expect(world.counts.admitted).toBeGreaterThan(2);
    expect(world.asked.map(({ outcome }) => outcome)).not.toContain("pending");
    expect(world.counts.oks).toBeGreaterThan(0);
  });

  test("the error is found", async () => {
    const world = await play(mutants[name as keyof typeof mutants], story);
    expect(world.violations).not.toEqual([]);
  });
});
