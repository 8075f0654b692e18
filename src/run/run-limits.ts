/**
 * What ends a run before its app answers: the app's timeout, a caller who leaves, and the end of
 * the process. Every run under way has its deadline in one of a few lists, so it needs no timer.
 */

import type { Clock, Timers } from "../base/clock.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { appTimedOut, type Run, type RunLimits } from "./runner.ts";

/** All runs under way. */
export class RunningRuns {
  readonly #deadlines: Deadlines;
  readonly #idle = Promise.withResolvers<void>();
  #running = 0;
  #isEnding = false;

  constructor(clock: Clock, timers: Timers) {
    this.#deadlines = new Deadlines(clock, timers);
  }

  /** Starts the time of the run, and ends it when its caller is gone. */
  start(run: Run, timeoutMs: number): RunningLimits {
    const limits = new RunningLimits(timeoutMs, this.#stopped);
    this.#running += 1;
    this.#deadlines.add(limits, timeoutMs);
    const { signal } = run;
    if (signal.aborted) limits.end(signal.reason);
    else signal.addEventListener("abort", () => limits.end(signal.reason), { once: true });
    return limits;
  }

  /** Ends all runs with this refusal. Resolves when each has been stopped. */
  async end(refusal: Refusal): Promise<void> {
    this.#isEnding = true;
    if (this.#running === 0) return;
    for (const limits of this.#deadlines) if (limits instanceof RunningLimits) limits.end(refusal);
    await this.#idle.promise;
  }

  readonly #stopped = (limits: RunningLimits): void => {
    this.#deadlines.remove(limits);
    this.#running -= 1;
    if (this.#isEnding && this.#running === 0) this.#idle.resolve();
  };
}

/** An entry of `Deadlines`. It is linked to its neighbours, so it is in one list at most. */
export abstract class Timed {
  /** The monotonic time of its deadline. */
  deadlineMs = 0;
  before: Timed | undefined;
  after: Timed | undefined;
  list: DeadlineList | undefined;

  /** Called once, when the deadline has passed. The entry is removed before. Never throws. */
  abstract onDeadline(): void;
}

/** The limits of one run. The first reason to end becomes its refusal. */
export class RunningLimits extends Timed implements RunLimits {
  readonly #timeoutMs: number;
  readonly #stopped: (limits: RunningLimits) => void;
  readonly #end = new AbortController();
  #isOver = false;

  constructor(timeoutMs: number, stopped: (limits: RunningLimits) => void) {
    super();
    this.#timeoutMs = timeoutMs;
    this.#stopped = stopped;
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Ends the run with this refusal, unless it has ended already. */
  end(refusal: Refusal): void {
    if (!this.#isOver) this.#end.abort(refusal);
  }

  override onDeadline(): void {
    this.end(appTimedOut(`No answer within ${this.#timeoutMs} ms.`));
  }

  /** Call it once, when the run is over: nothing is ended after that. */
  stop(): void {
    this.#isOver = true;
    this.#stopped(this);
  }
}

/**
 * Deadlines of which almost none passes. All with the same timeout are in one list, in the order of
 * their deadlines, and share one timer. A timer for each would cost more than the list, and the
 * table of a `Set` would keep what was removed from it alive.
 */
export class Deadlines implements Iterable<Timed> {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #lists = new Map<number, DeadlineList>();

  constructor(clock: Clock, timers: Timers) {
    this.#clock = clock;
    this.#timers = timers;
  }

  add(entry: Timed, timeoutMs: number): void {
    entry.deadlineMs = this.#clock.monotonicMs() + timeoutMs;
    const list = this.#lists.get(timeoutMs);
    if (list !== undefined) list.append(entry);
    else this.#lists.set(timeoutMs, this.#begin(entry, timeoutMs));
  }

  /** Does nothing if the entry is in no list. */
  remove(entry: Timed): void {
    entry.list?.remove(entry);
  }

  *[Symbol.iterator](): Iterator<Timed> {
    for (const list of [...this.#lists.values()]) yield* list.entries();
  }

  #begin(entry: Timed, timeoutMs: number): DeadlineList {
    const list = new DeadlineList();
    list.append(entry);
    const wait = ({ deadlineMs }: Timed, ms: number) => this.#timers.after(ms, () => look(deadlineMs));
    // A timer may fire a little before the clock says so. What it was set for has passed then.
    const look = (passedMs: number) => {
      list.callUntil(Math.max(passedMs, this.#clock.monotonicMs()));
      const { first } = list;
      if (first !== undefined) wait(first, Math.ceil(first.deadlineMs - this.#clock.monotonicMs()));
      else this.#lists.delete(timeoutMs);
    };
    wait(entry, timeoutMs);
    return list;
  }
}

class DeadlineList {
  first: Timed | undefined;
  #last: Timed | undefined;

  append(entry: Timed): void {
    entry.list = this;
    entry.before = this.#last;
    if (this.#last !== undefined) this.#last.after = entry;
    else this.first = entry;
    this.#last = entry;
  }

  remove(entry: Timed): void {
    const { before, after } = entry;
    if (before !== undefined) before.after = after;
    else this.first = after;
    if (after !== undefined) after.before = before;
    else this.#last = before;
    entry.before = undefined;
    entry.after = undefined;
    entry.list = undefined;
  }

  /** Calls the entries whose deadline is not after this time. */
  callUntil(nowMs: number): void {
    for (;;) {
      const { first } = this;
      if (first === undefined || first.deadlineMs > nowMs) return;
      this.remove(first);
      first.onDeadline();
    }
  }

  entries(): Timed[] {
    const entries: Timed[] = [];
    for (let entry = this.first; entry !== undefined; entry = entry.after) entries.push(entry);
    return entries;
  }
}
