import type { Clock } from "#src/base/clock.ts";
import { createShares, type Shares } from "#src/fleet/shares.ts";
import { createSharedLimiter, type SharedLimiter } from "#src/limit/redis/shared-limiter.ts";
import type { Answer, Ask, OpenSharedLogs, SharedLogs } from "#src/limit/redis/shared-logs.ts";
import type { SharePlace } from "#src/limit/share.ts";
import { SlidingLog } from "#src/limit/sliding-log.ts";
import type { LimitTimers } from "#src/limit/timers.ts";
import { instanceFactsOf } from "../../harness/instance-facts.ts";
import { createMemoryControl } from "../../harness/memory-control-store.ts";
import { createRandom } from "../../harness/seeded-random.ts";
import { createVirtualTime, type VirtualTime } from "../../harness/virtual-time.ts";

const windowMs = 60_000;
const limit = 12;

/** What a schedule may do beside failing calls. */
export interface ScheduleKinds {
  readonly joinsAndLeaves: boolean;
  readonly faults: boolean;
  /** Faults come every few seconds, so that several lie in one window. */
  readonly isStormy?: boolean;
  /** Instances leave in good order and others take their places, again and again. */
  readonly rollingRestarts?: boolean;
  /** Replaces what an instance says of itself when it leaves, to break it on purpose. */
  readonly handsShareOver?: (own: boolean) => boolean;
  /** Replaces what an instance believes of its sharePlace, to break it on purpose. */
  readonly sharePlace?: (sharePlace: SharePlace | undefined) => SharePlace | undefined;
}

export interface ScheduleOutcome {
  /** The most that passed within any window, in parts of the limit. */
  readonly most: number;
  /** The same, less what the bound allows that window: 0 where the bound is met, and not passed. */
  readonly overBound: number;
  readonly accepted: number;
  readonly switches: number;
  readonly returns: number;
  readonly longestMs: number;
  /** Shares that went from an instance that left to another one. */
  readonly handed: number;
}

/**
 * Runs the limiters of several instances against one simulated Redis, for some minutes of simulated
 * time, and counts what they admit of one team. Everything follows from the seed.
 */
export async function runSchedule(seed: number, kinds: ScheduleKinds): Promise<ScheduleOutcome> {
  const { next: random, chance, between, pick } = createRandom(seed);
  const time = createVirtualTime();
  const sleep = (ms: number) => new Promise<void>((resolve) => time.at(time.now() + ms, resolve));
  const redis = { isUp: true, epoch: 0, log: new SlidingLog(windowMs), slowMs: 0 };
  const control = createMemoryControl();
  const instances: Instance[] = [];
  const accepted: number[] = [];
  const emptiedMs: number[] = [];
  const tally = { switches: 0, returns: 0, longestMs: 0, handed: 0 };

  function openFor(instance: Instance): OpenSharedLogs {
    const legMs = () => between(0.1, kinds.faults && chance(0.01) ? 90 : 3) + redis.slowMs;
    const reaches = (epoch: number) => redis.isUp && instance.isLinked && redis.epoch === epoch;
    return async (lost) => {
      await sleep(2 * legMs());
      const { epoch } = redis;
      if (!reaches(epoch)) {
        await sleep(100);
        throw new Error("unreachable");
      }
      let isClosed = false;
      instance.onBreak = (cause) => {
        if (!isClosed) lost(cause);
      };
      const logs: SharedLogs = {
        async spend(asks, giveUpMs) {
          await sleep(legMs());
          // What a frozen server has received, it runs when it wakes.
          while (redis.epoch === epoch && !redis.isUp) await sleep(20);
          if (redis.epoch !== epoch) throw new Error("reset");
          if (!instance.isLinked || time.now() + instance.aheadMs > giveUpMs) return await never;
          const answers = asks.map((ask) => spendOf(redis.log, time.now(), ask));
          await sleep(legMs());
          return reaches(epoch) ? answers : await never;
        },
        close() {
          isClosed = true;
        },
      };
      return logs;
    };
  }

  async function join(isFirst: boolean): Promise<void> {
    const id = String(instances.length);
    const instance = createInstance(time, { id, aheadMs: between(0, 1e6), isFirst });
    instances.push(instance);
    const view = control.register(id, instanceFactsOf());
    instance.joined();
    instance.shares.see(view);
    instance.limiter = await createSharedLimiter({
      clock: instance.clock,
      timers: instance.timers,
      open: openFor(instance),
      fallback: "share",
      sharePlace: () => (kinds.sharePlace ?? ((own) => own))(instance.sharePlace()),
      windowMs,
      events: { modeChanged: ({ mode }) => (mode === "share" ? tally.switches++ : tally.returns++) },
    }).catch(() => undefined);
    if (!instance.limiter) crash(instance);
    else void heartbeat(instance);
  }

  async function heartbeat(instance: Instance): Promise<void> {
    while (!instance.isGone) {
      const view = control.read();
      await sleep(between(1, 100));
      instance.shares.see(view);
      const [share] = view.vacant ?? [];
      if (share && !instance.sharePlace() && control.takeOver(instance.id, share)) tally.handed++;
      for (const slot of instance.shares.longVacant()) control.dropVacant(slot);
      await sleep(between(100, 600));
    }
  }

  /** It stays registered until its lease is over, or others saw that its process is gone. */
  function crash(instance: Instance): void {
    instance.isGone = true;
    instance.limiter?.close();
    void sleep(chance(0.5) ? 0 : 6_000).then(() => control.remove(instance.id));
  }

  /** In good order, as after SIGTERM. */
  function leave(instance: Instance): void {
    const isAllShared = instance.limiter?.isAllShared() ?? false;
    const hands = (kinds.handsShareOver ?? ((own) => own))(isAllShared);
    const share = hands ? instance.shares.shareOf(instance.id) : undefined;
    instance.isGone = true;
    instance.limiter?.close();
    if (share) control.vacate(instance.id, share);
    else control.remove(instance.id);
  }

  /** The new one comes after the old one has left, or before. */
  async function rollingRestarts(until: number): Promise<void> {
    while (time.now() < until) {
      await sleep(between(500, chance(0.7) ? 20_000 : 90_000));
      for (const old of instances.filter(({ isGone }) => !isGone)) {
        const isBefore = chance(0.3);
        if (isBefore) await joinAndServe(until);
        await sleep(between(0, 3_000));
        if (!old.isGone) leave(old);
        await sleep(chance(0.9) ? between(0, 5_000) : between(0, 90_000));
        if (!isBefore) await joinAndServe(until);
      }
    }
  }

  async function callers(instance: Instance, until: number): Promise<void> {
    while (!instance.isGone && time.now() < until) {
      for (let n = chance(0.1) ? 15 : 1; n > 0; n--) void request(instance);
      await sleep(chance(0.05) ? between(0, 20_000) : between(0, 1_500));
    }
  }

  async function request(instance: Instance): Promise<void> {
    const beganMs = time.now();
    const cost = chance(0.9) ? 1 : 2;
    try {
      const decision = await instance.limiter?.spend("team", limit, cost);
      if (decision?.accepted) for (let n = 0; n < cost; n++) accepted.push(time.now());
    } catch {
      // A share that is too small, or the end of the instance.
    }
    tally.longestMs = Math.max(tally.longestMs, time.now() - beganMs);
  }

  async function faults(until: number): Promise<void> {
    while (time.now() < until) {
      await sleep(between(500, kinds.isStormy ? 8_000 : chance(0.5) ? 20_000 : 90_000));
      const kind = random();
      const some = pick(instances);
      const lengthMs = between(50, kinds.isStormy || chance(0.5) ? 3_000 : 70_000);
      if (kind < 0.35) {
        redis.isUp = false;
        const isLost = chance(0.8);
        if (isLost) breakAll("reset");
        await sleep(lengthMs);
        // It comes back empty, or with what it had, and every old connection is gone.
        if (isLost && chance(0.8)) {
          redis.log = new SlidingLog(windowMs);
          emptiedMs.push(time.now());
        }
        if (isLost) redis.epoch++;
        redis.isUp = true;
      } else if (kind < 0.7 && some) {
        some.isLinked = false;
        if (chance(0.5)) some.onBreak("cut");
        await sleep(lengthMs);
        some.isLinked = true;
      } else if (kind < 0.8) {
        redis.slowMs = between(20, 80);
        await sleep(lengthMs / 10);
        redis.slowMs = 0;
      } else if (kinds.joinsAndLeaves && kind < 0.9) await joinAndServe(until);
      else if (kinds.joinsAndLeaves && some && !some.isGone) (chance(0.5) ? leave : crash)(some);
    }
  }

  function breakAll(cause: string): void {
    redis.epoch++;
    for (const instance of instances) instance.onBreak(cause);
  }

  async function joinAndServe(until: number): Promise<void> {
    if (instances.filter(({ isGone }) => !isGone).length >= 5) return;
    await join(false);
    const joined = instances.at(-1);
    if (joined?.limiter) void callers(joined, until);
  }

  async function play(): Promise<void> {
    const until = between(200_000, 500_000);
    const count = 1 + Math.floor(random() * 4);
    for (let n = 0; n < count; n++) await join(true);
    for (const instance of instances) void callers(instance, until);
    if (kinds.faults) void faults(until);
    if (kinds.rollingRestarts) void rollingRestarts(until);
    await sleep(until + 1_000);
    for (const instance of instances) instance.isGone = true;
  }

  let isOver = false;
  void play().then(() => {
    isOver = true;
  });
  while (!isOver) await time.runUntil(time.now() + 1_000);
  const counted = countWindows(accepted, kinds.joinsAndLeaves ? emptiedMs : []);
  return { ...counted, accepted: accepted.length, ...tally };
}

const never = new Promise<never>(() => {});

function spendOf(log: SlidingLog, nowMs: number, { limit: askLimit, cost, count }: Ask): Answer {
  let taken = 0;
  let retryAfterMs = 0;
  for (let n = 0; n < count; n++) {
    const waitMs = log.spend(nowMs, askLimit, cost);
    if (waitMs === 0) taken++;
    else retryAfterMs = waitMs;
  }
  return { taken, count: log.count, resetAfterMs: log.resetAfterMs, retryAfterMs };
}

/** An accepted request counts in Redis up to this long before its caller knows. */
const callMs = 300;

/**
 * In any window pass at most 2N. A newcomer does not know that Redis has lost what it counted, so
 * there N more may pass for each time that Redis came back empty in the window.
 */
function countWindows(timesMs: readonly number[], emptiedMs: readonly number[]) {
  let [most, overBound, first] = [0, Number.NEGATIVE_INFINITY, 0];
  for (const [n, timeMs] of timesMs.entries()) {
    while ((timesMs[first] ?? 0) <= timeMs - (windowMs - callMs)) first++;
    const parts = (n - first + 1) / limit;
    const emptied = emptiedMs.filter((atMs) => atMs > timeMs - windowMs && atMs <= timeMs).length;
    most = Math.max(most, parts);
    overBound = Math.max(overBound, parts - 2 - emptied);
  }
  return { most, overBound };
}

interface Instance {
  readonly id: string;
  readonly aheadMs: number;
  readonly clock: Clock;
  readonly timers: LimitTimers;
  readonly shares: Shares;
  limiter: SharedLimiter | undefined;
  isLinked: boolean;
  isGone: boolean;
  onBreak: (cause: string) => void;
  /** It registered just now. The first ones have been there for a window. */
  joined(): void;
  sharePlace(): SharePlace | undefined;
}

function createInstance(
  time: VirtualTime,
  { id, aheadMs, isFirst }: { readonly id: string; readonly aheadMs: number; readonly isFirst: boolean },
): Instance {
  let agoMs = isFirst ? windowMs : 0;
  const clock: Clock = {
    monotonicMs: () => time.now() + aheadMs - agoMs,
    unixMs: () => time.now(),
  };
  const shares = createShares(clock, windowMs);
  return {
    id,
    aheadMs,
    clock,
    shares,
    timers: {
      after(ms, run) {
        const event = time.at(time.now() + ms, run);
        return {
          cancel() {
            event.cancelled = true;
          },
        };
      },
      soon: (run) => void time.at(time.now(), run),
    },
    limiter: undefined,
    isLinked: true,
    isGone: false,
    onBreak: () => {},
    joined() {
      shares.joined(id);
      agoMs = 0;
    },
    sharePlace: () => shares.placeOf(id),
  };
}
