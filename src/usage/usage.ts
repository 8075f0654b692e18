import { setImmediate } from "node:timers/promises";
import { type Clock, createRepeatedWork } from "../base/clock.ts";
import type { Log } from "../log/log.ts";
import type { Reason } from "../refusal/reasons.ts";
import { createReadUsage } from "./get-usage.ts";
import { type CountUsage, createPendingUsage, type PendingUsage } from "./pending-usage.ts";
import { createUsageKeeper } from "./usage-keeper.ts";
import { type UsageHour, type UsageStore, usageBounds } from "./usage-store.ts";

/**
 * How keys are used. Requests are counted in memory (`pending-usage.ts`) and written every few
 * seconds, so no request waits for it. The keeper (`usage-keeper.ts`) makes days of hours, and
 * removes what is old. Reading adds what is not written yet.
 */
export function createUsage({ clock, store, log, incarnation, flushMs }: UsageParts) {
  const pending = createPendingUsage({ incarnation });
  const count: CountUsage = pending;
  const keeper = createUsageKeeper({
    clock,
    store,
    onFailed: (err) => log.warn({ err }, "days of usage could not be set or removed; it is tried again"),
  });
  const writer = createUsageWriter({
    pending,
    store,
    onWritten: keeper.written,
    onFailed: (err) => log.warn({ err }, "usage could not be written; it is kept for the next write"),
    onLost: (requests) =>
      log.warn({ requests }, "usage was not counted: too many keys were used at once, or the store is away"),
    ...(flushMs !== undefined && { flushMs }),
  });

  return {
    count,
    runEnded: createCountRuns(pending, () => clock.unixMs()),
    read: createReadUsage({ store, pending, nowMs: () => clock.unixMs() }),
    /** Lets go of what a deleted key has, and counts no run of it that ends later. */
    keyDeleted: pending.forgetKey,
    /** Deletes the counts of a team. Calls `before` before each write. */
    async deleteOfTeam(teamId: string, before: () => void): Promise<void> {
      // A write that runs may hold counts of the team.
      pending.forget(teamId);
      await writer.flush();
      const all = { beforeMs: Number.MAX_SAFE_INTEGER, limit: usageBounds.removedAtOnce };
      for (const remove of [store.deleteHours, store.deleteDays]) {
        do before();
        while ((await remove(teamId, all)) > 0);
      }
    },
    /** Starts to write, to set days, and to remove what is old. */
    start(): void {
      writer.start();
      keeper.start();
    },
    /** Writes what is left. Never rejects. */
    async close(): Promise<void> {
      await keeper.close();
      await writer.close();
    },
  };
}

export type Usage = ReturnType<typeof createUsage>;

export interface UsageParts {
  readonly clock: Clock;
  readonly store: UsageStore;
  readonly log: Log;
  /** Of this process, and of no other one. */
  readonly incarnation: string;
  readonly flushMs?: number | undefined;
}

/** To be called with each run or stream of an app that has ended, and how long it took. */
export type RunEnded = (
  run: { readonly teamId: string; readonly keyId: string },
  outcome: Reason | "OK",
  appMs: number,
) => void;

/**
 * A run counts as failed if the app answered wrongly or too late, or could not be reached. It does
 * not if its caller left, if Keyrun ended it, or if the app was busy.
 */
const appFailures: ReadonlySet<Reason | "OK"> = new Set(["APP_FAILED", "APP_TIMEOUT", "APP_UNREACHABLE"]);

/** Counts each run in the hour in which it ends. */
export function createCountRuns(usage: Pick<CountUsage, "ran">, unixMs: () => number): RunEnded {
  return (run, outcome, appMs) =>
    usage.ran(run, outcome !== "OK" && appFailures.has(outcome), appMs, unixMs());
}

/**
 * Writes what a process counts, off the path of requests, and never rejects. Where a write fails,
 * `onFailed` is called, and its counts go into the next one: a count is the whole of its hour, so
 * it does not matter whether the store has it already.
 */
export function createUsageWriter(parts: {
  readonly pending: PendingUsage;
  readonly store: Pick<UsageStore, "recordHours">;
  /** Called with the hours of each write that has succeeded. */
  readonly onWritten: (hours: readonly UsageHour[]) => void;
  readonly onFailed: (cause: unknown) => void;
  /** Called with the number of counts that there was no room for. */
  readonly onLost: (counts: number) => void;
  readonly flushMs?: number;
}) {
  const { pending, store, onWritten, onFailed, onLost, flushMs = usageBounds.flushMs } = parts;

  async function write(): Promise<void> {
    const lost = pending.takeLost();
    if (lost > 0) onLost(lost);
    const hours = pending.take();
    for (let start = 0; start < hours.length; start += usageBounds.countsPerWriteMax) {
      const some = hours.slice(start, start + usageBounds.countsPerWriteMax);
      try {
        await store.recordHours(some);
      } catch (cause) {
        pending.giveBack(hours.slice(start));
        onFailed(cause);
        return;
      }
      onWritten(some);
      await setImmediate();
    }
    pending.written();
  }

  const writes = createRepeatedWork(write, flushMs);
  return {
    start: writes.start,
    /** Writes what has changed since the last write. */
    flush: writes.run,
    /** Stops the timer and writes what is left. */
    async close() {
      await writes.stop();
      await writes.run();
    },
  };
}
