import { setTimeout as sleep } from "node:timers/promises";
import type { Refusal } from "../error.ts";
import type { RequestTracker } from "./request-tracker.ts";

/** Something that lets requests in: a listener, or what holds long streams open. */
export interface Drainable {
  /** Takes nothing new from now on, and lets what runs end. Called once. */
  stopAccepting(): void;
  /** Resolves once nothing is open any more. */
  drained(): Promise<void>;
  /** Takes away what is still open. */
  destroy(): void;
}

export interface DrainPlan {
  /** Turns `/readyz` and `grpc.health.v1` red. */
  markUnready(): void;
  readonly doors: readonly Drainable[];
  readonly requests: RequestTracker;
  /** How long to serve on after readiness turned, until the balancers have seen it. */
  readonly delayMs: number;
  /** How long requests may run on after that. */
  readonly msMax: number;
  /** How long answers to the requests that were then aborted may take to be written. */
  readonly abortGraceMs: number;
  /** What the requests aborted at the end are told. */
  readonly abortReason: () => Refusal;
}

export interface DrainOutcome {
  /** Requests that were not done by the drain's end, and were aborted. */
  readonly aborted: number;
}

/**
 * Shuts the doors without failing a request that ends within the drain: unready, serve on, stop accepting, wait,
 * abort what is left so that it is answered, destroy. Takes at most the three times together; never rejects.
 */
export async function drain(plan: DrainPlan): Promise<DrainOutcome> {
  plan.markUnready();
  await sleep(plan.delayMs);
  for (const door of plan.doors) door.stopAccepting();
  const closed = Promise.all(plan.doors.map((door) => door.drained()));
  await firstOf(closed, plan.msMax);
  const aborted = plan.requests.running();
  if (aborted > 0) {
    plan.requests.abortAll(plan.abortReason());
    await firstOf(plan.requests.idle(), plan.abortGraceMs);
  }
  for (const door of plan.doors) door.destroy();
  return { aborted };
}

/** Waits for the promise, but no longer than `msMax`; no timer is left behind. */
async function firstOf(promise: Promise<unknown>, msMax: number): Promise<void> {
  const timer = new AbortController();
  const timeUp = sleep(msMax, undefined, { signal: timer.signal }).catch(() => undefined);
  await Promise.race([promise, timeUp]);
  timer.abort();
}
