import type { Clock } from "../base/clock.ts";
import type { Log } from "../log/log.ts";
import { createCountRuns, type RunEnded } from "./count-runs.ts";
import { type CountUsage, createHeldUsage } from "./held-usage.ts";
import { createReadUsage, type ReadUsage } from "./read-usage.ts";
import { usageBounds } from "./usage-bounds.ts";
import { createUsageKeeper } from "./usage-keeper.ts";
import type { UsageStore } from "./usage-store.ts";
import { createUsageWriter } from "./usage-writer.ts";

/** How keys are used: counted in memory, written now and then, read with what is not written. */
export interface Usage {
  readonly count: CountUsage;
  readonly runEnded: RunEnded;
  readonly read: ReadUsage;
  /** Lets go of what a deleted key has, and counts no run of it that ends later. */
  keyDeleted(keyId: string): void;
  /** Deletes the counts of a team. Calls `before` before each write. */
  deleteOfTeam(teamId: string, before: () => void): Promise<void>;
  /** Starts to write, to set days, and to remove what is old. */
  start(): void;
  /** Writes what is left. Never rejects. */
  close(): Promise<void>;
}

export interface UsageParts {
  readonly clock: Clock;
  readonly store: UsageStore;
  readonly log: Log;
  /** Of this process, and of no other one. */
  readonly incarnation: string;
  readonly flushMs?: number | undefined;
}

export function createUsage({ clock, store, log, incarnation, flushMs }: UsageParts): Usage {
  const held = createHeldUsage({ incarnation });
  const keeper = createUsageKeeper({
    ...{ clock, store },
    onFailed: (err) => log.warn({ err }, "days of usage could not be set or removed; it is tried again"),
  });
  const writer = createUsageWriter({
    ...{ held, store, onWritten: keeper.written },
    onFailed: (err) => log.warn({ err }, "usage could not be written; it is kept for the next write"),
    onLost: (requests) =>
      log.warn({ requests }, "usage was not counted: too many keys were used at once, or the store is away"),
    ...(flushMs !== undefined && { flushMs }),
  });

  return {
    count: held,
    runEnded: createCountRuns(held, () => clock.unixMs()),
    read: createReadUsage({ store, held, nowMs: () => clock.unixMs() }),
    keyDeleted: held.forgetKey,
    async deleteOfTeam(teamId, before) {
      // A write that runs may hold counts of the team.
      held.forget(teamId);
      await writer.flush();
      const all = { beforeMs: Number.MAX_SAFE_INTEGER, limit: usageBounds.removedAtOnce };
      for (const remove of [store.deleteHours, store.deleteDays]) {
        do before();
        while ((await remove(teamId, all)) > 0);
      }
    },
    start() {
      writer.start();
      keeper.start();
    },
    async close() {
      await keeper.close();
      await writer.close();
    },
  };
}
