import { unavailable } from "#src/refusal/refusal.ts";
import type { VirtualTime } from "../../harness/virtual-time.ts";
import type { Machine } from "./machine.ts";

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
