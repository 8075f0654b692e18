import { setImmediate } from "node:timers/promises";
import { type Clock, createRepeatedWork } from "../base/clock.ts";
import type { Log } from "../log/log.ts";
import type { Reason } from "../refusal/reasons.ts";
import { createReadUsage } from "./get-usage.ts";
import { type CountUsage, createPendingUsage, type PendingUsage } from "./pending-usage.ts";
import { createUsageKeeper } from "./usage-keeper.ts";
import { type UsageStore, usageBounds } from "./usage-store.ts";

/**
 * How keys are used. Requests are counted in memory (`pending-usage.ts`), and every few seconds the
 * store adds what was counted, so no request waits for it. Who reads writes first. The keeper
 * (`usage-keeper.ts`) removes what is old.
 */
export function createUsage({ clock, store, log, incarnation, flushMs }: UsageParts) {
  const pending = createPendingUsage({ incarnation });
  const count: CountUsage = pending;
  const keeper = createUsageKeeper({
    clock,
    store,
    onFailed: (err) => log.warn({ err }, "old usage could not be removed; it is tried again"),
  });
  const writer = createUsageWriter({
    pending,
    store,
    onFailed: (err) => log.warn({ err }, "usage could not be written; it is kept for the next write"),
    onLost: (requests) =>
      log.warn({ requests }, "usage was not counted: too many keys were used at once, or the store is away"),
    ...(flushMs !== undefined && { flushMs }),
  });

  return {
    count,
    runEnded: createCountRuns(pending, () => clock.unixMs()),
    read: createReadUsage(store, writer.flush),
    /** Lets go of what a deleted key has, and counts no run of it that ends later. */
    keyDeleted: pending.forgetKey,
    /** Deletes the counts of a team. Calls `before` before each write. */
    async deleteOfTeam(teamId: string, before: () => void): Promise<void> {
      pending.forget(teamId);
      // A write that runs may hold counts of the team.
      await writer.flush();
      const all = { beforeMs: Number.MAX_SAFE_INTEGER, limit: usageBounds.removedAtOnce };
      for (const remove of [store.deleteHours, store.deleteDays]) {
        do before();
        while ((await remove(teamId, all)) > 0);
      }
    },
    /** Starts to write, and to remove what is old. */
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
 * `onFailed` is called, and the next write begins with the same batch: the store may have it.
 */
export function createUsageWriter(parts: {
  readonly pending: PendingUsage;
  readonly store: Pick<UsageStore, "add">;
  readonly onFailed: (cause: unknown) => void;
  /** Called with the number of counts that there was no room for. */
  readonly onLost: (counts: number) => void;
  readonly flushMs?: number;
}) {
  const { pending, store, onFailed, onLost, flushMs = usageBounds.flushMs } = parts;

  async function write(): Promise<void> {
    const lost = pending.takeLost();
    if (lost > 0) onLost(lost);
    try {
      await writeBatches();
      pending.seal();
      await writeBatches();
    } catch (cause) {
      onFailed(cause);
    }
  }

  async function writeBatches(): Promise<void> {
    for (let batch = pending.batch(); batch; batch = pending.batch()) {
      await store.add(batch);
      pending.written();
      await setImmediate();
    }
  }

  const writes = createRepeatedWork(write, flushMs);
  return {
    start: writes.start,
    /** Writes all that was counted before. */
    async flush(): Promise<void> {
      // One that is under way may have begun before the last count.
      await writes.run();
      await writes.run();
    },
    /** Stops the timer and writes what is left. */
    async close() {
      await writes.stop();
      await writes.run();
    },
  };
}
