import { type FleetTimes, fleetTimes, lapseMsOf } from "#src/fleet/lease.ts";
import { createRandom, type Random } from "../../harness/seeded-random.ts";
import { createChaos } from "../../harness/store-link.ts";
import type { Mutant } from "./mutants.ts";
import { createWorld, type World } from "./world.ts";

export interface ScheduleResult {
  /** What must never happen, in words; empty where the protocol held. */
  readonly violations: readonly string[];
  readonly counts: World["counts"];
}

/** Times that a fleet may run with: the default, longer ones for failovers, and small ones. */
const timeSets: readonly Partial<FleetTimes>[] = [
  {},
  { leaseMs: 15_000, beatMs: 1_000 },
  { leaseMs: 1_000, beatMs: 100 },
  { leaseMs: 600, beatMs: 60 },
  { leaseMs: 1_000, beatMs: 100, clockRateError: 0.1 },
];
/** Used all the time, so that every instance has them in its cache, and revoked. */
const warmKeyIds = ["a", "b"];
/** Used all the time too, and replaced with an overlap. */
const overlappedKeyId = "e";
/** Used only around its revocation, so that reads of it are under way. */
const coldKeyId = "c";
/** Never revoked while there are faults: it shows by which plan it is decided. */
const lastingKeyId = "d";

/**
 * Plays one random schedule, which the seed alone decides. One in eight ends its faults early, and
 * then everything must come right in time.
 */
export async function playSchedule(seed: number, mutant: Mutant): Promise<ScheduleResult> {
  const random = createRandom(seed);
  const times = { ...fleetTimes, ...random.pick(timeSets) };
  const endsFaults = random.chance(1 / 8);
  const chaos = createChaos(random, times);
  const timeoutMs = times.leaseMs * random.pick([0.2, 0.35, 0.8]);
  const world = createWorld({
    ...{ times, mutant },
    rates: ratesOf(random, times),
    ttlMs: times.leaseMs * random.pick([2, 4]),
    recentMax: random.pick([1, 3, 256]),
    timeoutMs,
    legsOf: chaos.legsOf,
    nudgeMs: chaos.nudgeMs,
    timerErrorMs: () => (random.chance(0.2) ? random.between(-1, 5) : 0),
    restartMs: () => times.leaseMs * random.pick([0.02, 0.3, 1.2]),
    onOk: ({ keyId }) => probe(world, random, times, keyId),
  });
  const faultsMs = times.leaseMs * (endsFaults ? 4 : 7);
  startAll(world, random, times);
  planTraffic(world, random, { times, untilMs: times.leaseMs * 7 });
  planChanges(world, random, { times, untilMs: faultsMs });
  planFaults(world, random, { times, untilMs: faultsMs });
  await world.time.runUntil(faultsMs);
  const late = endsFaults ? await comeRight(world, chaos, { times, timeoutMs }) : [];
  return { violations: [...world.violations, ...late], counts: world.counts };
}

/** Often the worst that is allowed: one clock too fast and one too slow. */
function ratesOf(random: Random, { clockRateError }: FleetTimes): number[] {
  return Array.from({ length: random.pick([2, 3, 3, 4]) }, () =>
    random.chance(0.7)
      ? random.pick([1 - clockRateError, 1 + clockRateError])
      : random.between(1 - clockRateError, 1 + clockRateError),
  );
}

function indexes({ size }: World): number[] {
  return Array.from({ length: size }, (_, index) => index);
}

function startAll(world: World, random: Random, { leaseMs }: FleetTimes): void {
  for (const index of indexes(world)) {
    world.time.at(random.between(0, leaseMs / 4), () => world.start(index));
  }
}

/** Requests with every key at every instance, so that all of them have cached it. */
function planTraffic(world: World, random: Random, plan: { times: FleetTimes; untilMs: number }): void {
  const everyMs = plan.times.leaseMs / 6;
  for (const index of indexes(world)) {
    for (const keyId of [...warmKeyIds, overlappedKeyId, lastingKeyId]) {
      for (
        let ms = random.between(0, everyMs);
        ms < plan.untilMs;
        ms += random.between(everyMs / 2, everyMs * 1.5)
      ) {
        world.time.at(ms, () => world.request(index, keyId));
      }
    }
  }
}

/** Requests at every instance right after an OK, and until no old lease can be left. */
function probe(world: World, random: Random, { leaseMs }: FleetTimes, keyId = lastingKeyId): void {
  for (const index of indexes(world)) {
    for (const part of [0.0001, 0.03, 0.1, 0.25, 0.5, 0.8, 1.2]) {
      const ms = world.time.now() + leaseMs * part * random.between(0.9, 1);
      world.time.at(ms, () => world.request(index, keyId));
    }
  }
}

/** Revocations and rotations, often at several instances at once, and changes of the plan. */
function planChanges(world: World, random: Random, plan: { times: FleetTimes; untilMs: number }): void {
  const { leaseMs } = plan.times;
  const someTime = () => random.between(leaseMs / 2, plan.untilMs);
  for (const keyId of [...warmKeyIds, coldKeyId, overlappedKeyId]) {
    const firstMs = someTime();
    for (const index of indexes(world)) {
      for (let n = 0; n < 3; n++) {
        world.time.at(firstMs + random.between(-20, 20), () => world.request(index, keyId));
      }
    }
    const revokes = random.pick([1, 1, 2, 3]);
    for (let n = 0; n < revokes; n++) {
      const ms =
        n === 0 ? firstMs : firstMs + leaseMs * random.pick([0, 0.01, 0.2, 0.6, 1.1]) * random.next();
      const hasOverlap = keyId === overlappedKeyId;
      const isRotated = hasOverlap || random.chance(0.4);
      world.time.at(ms, () => {
        const index = random.whole(world.size);
        if (isRotated) world.rotate(index, keyId, { hasOverlap });
        else world.revoke(index, keyId);
      });
    }
  }
  for (let changes = random.whole(4); changes > 0; changes--) {
    const grants = random.chance(0.3);
    world.time.at(someTime(), () => world.changePlan(random.whole(world.size), { grants }));
  }
}

/** Times of which the protocol depends: some faults last just as long. */
function faultMs(random: Random, times: FleetTimes): number {
  const around = random.pick([times.beatMs, 2 * times.beatMs, times.leaseMs, lapseMsOf(times)]);
  return random.chance(0.5) ? around * random.between(0.8, 1.3) : random.between(0, 2 * times.leaseMs);
}

function planFaults(world: World, random: Random, plan: { times: FleetTimes; untilMs: number }): void {
  const { times, untilMs } = plan;
  const during = (begin: () => void, end: () => void) => {
    const fromMs = random.between(0, untilMs);
    world.time.at(fromMs, begin);
    world.time.at(Math.min(untilMs, fromMs + faultMs(random, times)), end);
  };
  const some = (most: number) => random.whole(most + 1);
  const anyInstance = () => random.whole(world.size);
  for (let n = some(3); n > 0; n--) {
    const index = anyInstance();
    during(
      () => world.setCut(index, true),
      () => world.setCut(index, false),
    );
  }
  for (let n = some(3); n > 0; n--) {
    const index = anyInstance();
    during(
      () => world.freeze(index),
      () => world.thaw(index),
    );
  }
  if (random.chance(0.25)) {
    during(
      () => world.setStoreUp(false),
      () => world.setStoreUp(true),
    );
  }
  for (let n = some(2); n > 0; n--)
    world.time.at(random.between(0, untilMs), () => world.crash(anyInstance()));
  if (random.chance(0.3)) world.time.at(random.between(0, untilMs), () => world.leave(anyInstance()));
  for (let n = some(2); n > 0; n--) {
    const ms = times.leaseMs * random.pick([-1, 1]) * random.pick([0.3, 1, 10]);
    world.time.at(random.between(0, untilMs), () => world.stepWall(anyInstance(), ms));
  }
}

/**
 * The faults are over. Every instance must hold again, what was asked for must have ended, and new
 * changes must be through within the longest that one may take.
 */
async function comeRight(
  world: World,
  chaos: { readonly calm: () => void },
  { times, timeoutMs }: { readonly times: FleetTimes; readonly timeoutMs: number },
): Promise<string[]> {
  const { leaseMs, beatMs, clockRateError } = times;
  chaos.calm();
  const storeMs = timeoutMs * 4 + 4 * beatMs + 200;
  const barrierMs = lapseMsOf(times) / (1 - clockRateError) + 200;
  const healthyMsMax = 2 * beatMs;
  // Longer than any process takes to start again, than late messages, and than a wait for a lapse.
  const calmMs = world.time.now() + leaseMs * 1.3 + storeMs + barrierMs;
  await world.time.runUntil(calmMs);
  const words = world.asked
    .filter(({ outcome }) => outcome === "pending")
    .map(({ askedMs, machine }) => `a change asked for at ${askedMs.toFixed(1)} at ${machine} does not end`);
  for (const index of indexes(world)) {
    if (!world.instance(index)?.fleet.mayAdmit()) words.push(`instance ${index} does not hold again`);
  }
  const again = indexes(world).map((index) => world.revoke(index, lastingKeyId));
  await world.time.runUntil(calmMs + barrierMs);
  for (const { machine, outcome, endMs } of again) {
    if (outcome !== "ok") words.push(`a revocation at ${machine} is ${outcome} without any fault`);
    else if (endMs - calmMs > healthyMsMax) words.push(`a revocation took ${(endMs - calmMs).toFixed(1)} ms`);
  }
  return words;
}
