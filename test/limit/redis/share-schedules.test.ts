import { describe, expect, test } from "vitest";
import { campaignSize, figures } from "../../harness/campaigns.ts";
import { runSchedule, type ScheduleKinds, type ScheduleOutcome } from "./simulated-fleet.ts";

const schedules = campaignSize("share-schedules");

/** Runs so many schedules. Says the seed of the one that came nearest to its bound. */
async function runAll(kinds: ScheduleKinds, count = schedules) {
  const total = {
    most: 0,
    overBound: Number.NEGATIVE_INFINITY,
    seed: 0,
    accepted: 0,
    switches: 0,
    returns: 0,
    longestMs: 0,
    handed: 0,
  };
  for (let seed = 1; seed <= count; seed++) {
    const outcome: ScheduleOutcome = await runSchedule(seed, kinds);
    if (outcome.overBound > total.overBound) Object.assign(total, { overBound: outcome.overBound, seed });
    total.most = Math.max(total.most, outcome.most);
    total.accepted += outcome.accepted;
    total.switches += outcome.switches;
    total.returns += outcome.returns;
    total.handed += outcome.handed;
    total.longestMs = Math.max(total.longestMs, outcome.longestMs);
  }
  return total;
}

test("without a fault N pass in a window over all instances, never more", async () => {
  const total = await runAll({ faults: false, joinsAndLeaves: false }, Math.ceil(schedules / 10));
  expect(total).toMatchObject({ switches: 0 });
  expect(total.most).toBe(1);
});

describe.each([
  { name: "", isStormy: false },
  { name: ", every few seconds", isStormy: true },
])("however Redis fails and comes back$name", ({ name, isStormy }) => {
  test("at most 2N pass in a window", async () => {
    const total = await runAll({ faults: true, joinsAndLeaves: false, isStormy });
    figures(`faults${name}`, total);
    expect(total.overBound, `seed ${total.seed}`).toBeLessThanOrEqual(0);
    expect(total.most).toBeGreaterThan(1.3);
    expect(total.returns).toBeGreaterThan(schedules);
    expect(total.longestMs).toBeLessThan(100.001);
  });

  test("where instances join and leave meanwhile, N more for each time that Redis comes back empty", async () => {
    const total = await runAll({ faults: true, joinsAndLeaves: true, isStormy });
    figures(`joins and leaves${name}`, total);
    expect(total.overBound, `seed ${total.seed}`).toBeLessThanOrEqual(0);
    expect(total.longestMs).toBeLessThan(100.001);
  });
});

const rolling = { faults: true, joinsAndLeaves: true, rollingRestarts: true };

describe.each([
  { name: "", isStormy: false },
  { name: ", every few seconds", isStormy: true },
])("however Redis fails and comes back$name, while instances are restarted in turn", ({ name, isStormy }) => {
  test("shares go from one to the next, and no more pass than where they do not", async () => {
    const total = await runAll({ ...rolling, isStormy });
    figures(`rolling restarts${name}`, total);
    expect(total.overBound, `seed ${total.seed}`).toBeLessThanOrEqual(0);
    expect(total.handed).toBeGreaterThan(schedules);
  });
});

test("the simulation sees instances that hand on a share from which they admitted", async () => {
  const total = await runAll({ ...rolling, isStormy: true, handsShareOver: () => true }, 60);
  expect(total.overBound).toBeGreaterThan(0);
});

test("the simulation sees an instance that takes all for its share", async () => {
  const sharePlace = () => ({ place: 0, of: 1 });
  const total = await runAll({ faults: true, joinsAndLeaves: false, sharePlace }, 30);
  expect(total.overBound).toBeGreaterThan(0);
});
