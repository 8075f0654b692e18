import type { QuotaLimit } from "#src/settings/config.ts";
import { createRandom, type Random } from "../../harness/seeded-random.ts";
import { createChaos } from "../../harness/store-link.ts";
import type { Mutant } from "./mutants.ts";
import { createWorld, leaseMs, type SubjectName, type World } from "./world.ts";

export interface ScheduleResult {
  /** What must never happen, in words; empty where the promises held. */
  readonly violations: readonly string[];
  readonly totals: World["counts"]["totals"];
}

const faultsMs = 60_000;
const instances = 3;
/** Ends of days and of months of every length. */
const endsOfPeriods = ["2026-11-30", "2027-03-01", "2028-03-01", "2026-12-01", "2027-01-01", "2026-11-18"];
const dayMs = 86_400_000;

/**
 * Plays one random schedule, which the seed alone decides. One in four has no fault that may lose
 * anything, and then nothing may be lost.
 */
export async function playSchedule(seed: number, mutant: Mutant): Promise<ScheduleResult> {
  const random = createRandom(seed);
  const isGentle = random.chance(1 / 4);
  const chaos = createChaos(random, { leaseMs });
  if (isGentle) chaos.calm();
  const nearMs = Date.parse(random.pick(endsOfPeriods)) - random.pick([10_000, 40_000, 5 * dayMs]);
  const world = createWorld({
    mutant,
    wallsMs: Array.from({ length: instances }, () => nearMs + random.between(-2_000, 2_000)),
    requestsPerMinute: random.pick([1, 60, 600, 6_000]),
    plan: planOf(random),
    keyLimit: { requests: random.pick([1, 40, 150, 900]), period: random.pick(["day", "month"]) },
    timeoutMs: leaseMs * random.pick([0.1, 0.35]),
    legsOf: chaos.legsOf,
    restartMs: () => random.between(100, 2_000),
  });
  for (let index = 0; index < instances; index++) world.start(index);
  planTraffic(world, random);
  planOperators(world, random);
  if (isGentle) planGentleFaults(world, random);
  else planFaults(world, random);
  await world.time.runUntil(faultsMs);
  chaos.calm();
  if (world.counts.violations.length === 0) await comeRight(world);
  world.end();
  return { violations: world.counts.violations, totals: world.counts.totals };
}

function planOf(random: Random): QuotaLimit {
  return {
    requests: random.pick([1, 20, 100, 200, 700, 3_000]),
    period: random.pick(["day", "month", "month"]),
  };
}

/** Requests in bursts, at each instance. They make up about the quota, or several times as much. */
function planTraffic(world: World, random: Random): void {
  const burstMax = random.pick([2, 10, 40]);
  const kinds: readonly (readonly SubjectName[])[] = [["team"], ["team"], ["team", "key"], ["key"]];
  for (let index = 0; index < world.size; index++) {
    const everyMs = random.pick([200, 600, 2_000]);
    for (let ms = random.between(0, everyMs); ms < faultsMs; ms += random.between(0, 2 * everyMs)) {
      // Now and then it is idle for so long that it gives back what it holds.
      if (random.chance(0.02)) ms += random.between(9_000, 14_000);
      if (ms >= faultsMs) break;
      const burst = Array.from({ length: 1 + random.whole(burstMax) }, () => ({
        names: random.pick(kinds),
        cost: random.chance(0.1) ? 1 + random.whole(5) : 1,
        ...(random.chance(0.02) && { undoneMs: random.between(0, 300) }),
      }));
      world.time.at(ms, () => {
        const process = world.process(index);
        if (process) for (const asked of burst) void world.request(process, asked);
      });
    }
  }
}

/** Changes of the plan, grants with their repeats, and a team that is deleted and made anew. */
function planOperators(world: World, random: Random): void {
  const someTime = () => random.between(0, faultsMs - 3 * leaseMs);
  for (let n = random.whole(4); n > 0; n--) {
    const [next, dropsAll] = [planOf(random), random.chance(0.5)];
    const keepsPeriod = random.chance(0.8);
    world.time.at(someTime(), () => {
      const { period = next.period } = world.plan() ?? {};
      world.changePlan(keepsPeriod ? { ...next, period } : next, dropsAll);
    });
  }
  for (let n = random.whole(6); n > 0; n--) {
    const grant = { requests: 1 + random.whole(random.pick([5, 300])), requestId: `grant-${n}` };
    const ms = someTime();
    for (let times = 1 + random.whole(3); times > 0; times--) {
      const index = random.whole(world.size);
      world.time.at(ms + random.pick([0, 1, 2_000]) * random.next(), () => world.grant(index, grant));
    }
  }
  if (random.chance(0.15)) world.time.at(someTime(), () => world.replaceTeam());
}

/**
 * What may lose nothing: clean stops, clocks that step, and an instance that stands still for a
 * moment.
 */
function planGentleFaults(world: World, random: Random): void {
  for (let n = random.whole(3); n > 0; n--) {
    const index = random.whole(world.size);
    world.time.at(random.between(0, faultsMs - leaseMs), () => world.stop(index));
  }
  for (let n = random.whole(4); n > 0; n--) {
    const index = random.whole(world.size);
    const ms = random.pick([-1, 1]) * random.pick([1_000, 30_000, dayMs, 31 * dayMs]);
    world.time.at(random.between(0, faultsMs), () => world.stepWall(index, ms));
  }
}

function planFaults(world: World, random: Random): void {
  planGentleFaults(world, random);
  const during = (msMax: number, begin: () => void, end: () => void) => {
    const fromMs = random.between(0, faultsMs);
    world.time.at(fromMs, begin);
    world.time.at(Math.min(faultsMs, fromMs + random.between(0, msMax)), end);
  };
  for (let n = random.whole(5); n > 0; n--) {
    const index = random.whole(world.size);
    world.time.at(random.between(0, faultsMs), () => world.kill(index));
  }
  for (let n = random.whole(4); n > 0; n--) {
    const index = random.whole(world.size);
    during(
      random.pick([1_000, 3 * leaseMs]),
      () => world.setCut(index, true),
      () => world.setCut(index, false),
    );
  }
  for (let n = random.whole(3); n > 0; n--) {
    const index = random.whole(world.size);
    during(
      1.5 * leaseMs,
      () => world.freeze(index),
      () => world.thaw(index),
    );
  }
}

/**
 * The faults are over, and nobody asks. Then each instance in turn must admit all that is left, and
 * be quiet until what it holds has gone back. Only what a kill or a failed call took may be
 * missing.
 */
async function comeRight(world: World): Promise<void> {
  const { time, counts } = world;
  const quietMs = 4 * leaseMs;
  await time.runUntil(time.now() + quietMs);
  for (let index = 0; index < world.size; index++) {
    for (const name of ["team", "key"] as const) {
      let ended: string | undefined;
      void exhaust(world, index, name).then((words) => {
        ended = words;
      });
      for (let tries = 0; tries < 20 && ended === undefined; tries++)
        await time.runUntil(time.now() + quietMs);
      if (ended !== "") counts.violations.push(`instance ${index}: ${name} ${ended}`);
      await time.runUntil(time.now() + quietMs);
    }
  }
}

/** Asks until it is refused. Returns what is wrong with it, or "". */
async function exhaust(world: World, index: number, name: SubjectName): Promise<string> {
  const process = world.process(index);
  if (!process) return "has no process";
  const early = world.counts.totals.early;
  for (;;) {
    const answer = await world.request(process, { names: [name], cost: 1 });
    if (answer.kind === "none") return "is not served without a fault";
    if (answer.kind === "admitted" && world.counts.violations.length === 0) continue;
    if (answer.kind === "admitted") return "is served wrongly";
    if (world.counts.totals.early > early && !world.hasForgottenHolds(answer.id))
      return "is refused although all have given back";
    world.close(answer.id, answer.limit);
    return "";
  }
}
