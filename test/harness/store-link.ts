import { unavailable } from "#src/refusal/refusal.ts";
import type { Random } from "./seeded-random.ts";
import type { Machine } from "./simulated-machine.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** How one call of the store fares. A delay of undefined is a message that is lost. */
export interface Legs {
  readonly requestMs: number | undefined;
  readonly answerMs: number | undefined;
  /** The driver repeats the call, which happens so long after the first time. */
  readonly againMs?: number | undefined;
}

/** What decides it: the call by its name, and the machine that makes it. */
export type LegsOf = (call: string, machine: number) => Legs;

export type CallStore = <T>(call: string, happen: () => T) => Promise<T>;

/**
 * The way of one process to the store. The call happens where its request arrives, and may still
 * happen long after the process gave it up. `isReachable` is asked when a message passes.
 */
export function createStoreLink(parts: {
  readonly time: VirtualTime;
  readonly machine: Machine;
  readonly index: number;
  readonly timeoutMs: number;
  readonly legsOf: LegsOf;
  readonly isReachable: () => boolean;
}): CallStore {
  const { time, machine, index, timeoutMs, legsOf, isReachable } = parts;
  const own = machine.process();
  const timers = machine.timers();
  return (call, happen) =>
    new Promise((resolve, reject) => {
      const { requestMs, answerMs, againMs } = legsOf(call, index);
      const timer = timers.after(timeoutMs, () => reject(unavailable()));
      const arrive = () => {
        if (!isReachable()) return;
        const outcome = happen();
        if (answerMs === undefined) return;
        time.at(time.now() + answerMs, () => {
          if (!isReachable()) return;
          machine.deliver(own, () => {
            timer.cancel();
            resolve(outcome);
          });
        });
      };
      if (requestMs === undefined) return;
      time.at(time.now() + requestMs, arrive);
      if (againMs !== undefined) time.at(time.now() + requestMs + againMs, arrive);
    });
}

/** What the network does to messages, until `calm`. */
export function createChaos(random: Random, { leaseMs }: { readonly leaseMs: number }) {
  let isCalm = false;
  const lossChance = random.pick([0, 0.02, 0.15]);
  const lateChance = random.pick([0, 0.03, 0.1]);
  const nudgeLoss = random.pick([0, 0.2, 1]);
  const delay = () =>
    !isCalm && random.chance(lateChance) ? random.between(8, leaseMs * 1.2) : random.between(0.2, 8);
  const legMs = () => (!isCalm && random.chance(lossChance) ? undefined : delay());
  return {
    calm() {
      isCalm = true;
    },
    legsOf(): Legs {
      const isRepeated = !isCalm && random.chance(0.02);
      return { requestMs: legMs(), answerMs: legMs(), ...(isRepeated && { againMs: delay() }) };
    },
    nudgeMs: () => (!isCalm && random.chance(nudgeLoss) ? undefined : delay()),
  };
}
