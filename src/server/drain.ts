import { setTimeout as sleep } from "node:timers/promises";
import type { Refusal } from "../refusal/refusal.ts";
import type { RequestTracker } from "./exchange/request-tracker.ts";

/** Something that accepts requests: a listener, or a part that holds long streams open. */
export interface Drainable {
  /**
   * Ends what would stay open by itself: idle connections and long streams. A request may still
   * come, on a connection that closes after it. Called once.
   */
  closeConnections(): void;
  /** Accepts nothing new from now on. What is running may end. Called once. */
  stopAccepting(): void;
  /** Resolves once all connections or streams are closed. */
  drained(): Promise<void>;
  /** Closes everything that is still open, at once. */
  destroy(): void;
}

export interface DrainPlan {
  /** Makes `/readyz` and `grpc.health.v1` answer that the process is not ready. */
  markUnready(): void;
  readonly drainables: readonly Drainable[];
  readonly requests: RequestTracker;
  /**
   * How long the listeners accept requests after `markUnready`, until the balancers have noticed.
   */
  readonly delayMs: number;
  /** How long running requests may go on after that. */
  readonly msMax: number;
  /** How long before the end of `msMax` the listeners stop accepting at the latest. */
  readonly portClosedMs: number;
  /** How long writing the answers to the aborted requests may take after that. */
  readonly abortGraceMs: number;
  /** Returns the refusal with which requests are aborted at the end. */
  readonly abortReason: () => Refusal;
}

export interface DrainOutcome {
  /** How many requests were still running at the drain's end, and were aborted. */
  readonly aborted: number;
}

/**
 * Shuts the drainables down without failing a request that ends in time. The steps: become unready,
 * serve for `delayMs`, close connections, stop accepting, wait, abort the requests that are left so
 * that they are answered, destroy. Takes at most the sum of the three times. Never rejects.
 *
 * With a delay, which says that a balancer probes, the ports stay open while requests run: a
 * balancer that can't connect may take the process for dead, and end its requests.
 */
export async function drain(plan: DrainPlan): Promise<DrainOutcome> {
  plan.markUnready();
  await sleep(plan.delayMs);
  for (const drainable of plan.drainables) drainable.closeConnections();
  await firstOf(closePorts(plan), plan.msMax);
  const aborted = plan.requests.running();
  if (aborted > 0) {
    plan.requests.abortAll(plan.abortReason());
    await firstOf(plan.requests.idle(), plan.abortGraceMs);
  }
  for (const drainable of plan.drainables) drainable.destroy();
  return { aborted };
}

async function closePorts({ drainables, requests, delayMs, msMax, portClosedMs }: DrainPlan): Promise<void> {
  if (delayMs > 0) await firstOf(requests.idle(), Math.max(0, msMax - portClosedMs));
  for (const drainable of drainables) drainable.stopAccepting();
  await Promise.all(drainables.map((drainable) => drainable.drained()));
}

/** Waits for the promise, but at most `msMax`. Leaves no timer running. */
async function firstOf(promise: Promise<unknown>, msMax: number): Promise<void> {
  const timeUp = Promise.withResolvers<void>();
  const timer = setTimeout(timeUp.resolve, msMax);
  await Promise.race([promise, timeUp.promise]);
  clearTimeout(timer);
}
