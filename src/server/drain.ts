/**
 * How the process stops without failing a request that ends in time: the drain, what it drains, and
 * the requests that run.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Refusal } from "../refusal/refusal.ts";

/** Something that accepts requests: a listener, or a part that keeps long streams open. */
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

/** A request that can be aborted. */
export interface Abortable {
  /**
   * Ends the work. The request is still answered. Never called after `unwatch`.
   */
  abort(reason: Refusal): void;
}

/** The running requests of all listeners. A drain waits for them, and aborts them at its end. */
export interface RequestTracker {
  running(): number;
  /** Counts a request as running. Call `end` once for it, however it ends. */
  begin(): void;
  end(): void;
  /** Resolves once no request is running. */
  idle(): Promise<void>;
  /**
   * Lets `abortAll` abort the request; aborts it at once if `abortAll` was called before. Returns
   * its place, for `unwatch`.
   */
  watch(request: Abortable): number;
  /** Call it once for each watched request. */
  unwatch(place: number): void;
  /** Aborts the watched requests, and every request that is watched later. */
  abortAll(reason: Refusal): void;
}

export function createRequestTracker(): RequestTracker {
  const watched = new SlotList<Abortable>();
  let endReason: Refusal | undefined;
  let running = 0;
  let whenIdle: (() => void)[] = [];
  return {
    running: () => running,
    begin() {
      running += 1;
    },
    end() {
      running -= 1;
      if (running > 0) return;
      for (const resolve of whenIdle) resolve();
      whenIdle = [];
    },
    async idle() {
      if (running > 0) await new Promise<void>((resolve) => whenIdle.push(resolve));
    },
    watch(request) {
      const place = watched.add(request);
      if (endReason !== undefined) request.abort(endReason);
      return place;
    },
    unwatch: (place) => watched.remove(place),
    abortAll(reason) {
      endReason = reason;
      for (const request of watched) request.abort(reason);
    },
  };
}

/**
 * The current members, in no order: a `Set` for members that come and go with every request. A
 * `Set` builds its table anew again and again, and each table that it leaves behind keeps the
 * members of its time from the young collection. With one, a small run took a third more of the
 * server's processor time, and the process twice the memory. This list keeps its places.
 */
export class SlotList<Member extends object> implements Iterable<Member> {
  readonly #places: (Member | undefined)[] = [];
  readonly #free: number[] = [];

  /** Adds a member. Returns its place, for `remove`. */
  add(member: Member): number {
    const place = this.#free.pop() ?? this.#places.length;
    this.#places[place] = member;
    return place;
  }

  /** Removes the member at the place. Call it once for each added member. */
  remove(place: number): void {
    this.#places[place] = undefined;
    this.#free.push(place);
  }

  /** A member that is added or removed during the iteration may be left out. */
  *[Symbol.iterator](): Iterator<Member> {
    for (const member of this.#places) if (member !== undefined) yield member;
  }
}
