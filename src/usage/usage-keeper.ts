import { setImmediate } from "node:timers/promises";
import { type Clock, createRepeatedWork } from "../base/clock.ts";
import { dayMs, startOfDay, type UsageStore, usageBounds } from "./usage-store.ts";

/**
 * Removes the hours and days that are older than they are kept. It goes through all teams once a
 * day, and after a failure. Every instance of a fleet does it.
 */
export function createUsageKeeper(parts: {
  readonly clock: Pick<Clock, "unixMs">;
  readonly store: Pick<UsageStore, "teamAfter" | "deleteHours" | "deleteDays">;
  /** Called with the cause when the work fails. It is done again later. */
  readonly onFailed: (cause: unknown) => void;
  readonly checkMs?: number;
}) {
  const { clock, store, onFailed, checkMs = usageBounds.keeperCheckMs } = parts;
  let keptMs = Number.NEGATIVE_INFINITY;
  let isClosed = false;

  async function keep(): Promise<void> {
    const todayMs = startOfDay(clock.unixMs());
    if (todayMs === keptMs) return;
    try {
      let teamId = await store.teamAfter("");
      while (teamId !== undefined && !isClosed) {
        await removeAll(store.deleteHours, teamId, todayMs - usageBounds.hoursKeptDays * dayMs);
        await removeAll(store.deleteDays, teamId, todayMs - usageBounds.daysKeptDays * dayMs);
        teamId = await store.teamAfter(teamId);
      }
      keptMs = todayMs;
    } catch (cause) {
      onFailed(cause);
    }
  }

  /** In small steps: a write of the embedded store stops all other work. */
  async function removeAll(
    remove: UsageStore["deleteHours"],
    teamId: string,
    beforeMs: number,
  ): Promise<void> {
    while (!isClosed && (await remove(teamId, { beforeMs, limit: usageBounds.removedAtOnce })) > 0) {
      await setImmediate();
    }
  }

  const checks = createRepeatedWork(keep, checkMs);
  return {
    /** Looks at once, and then from time to time. The timer does not keep the process alive. */
    start(): void {
      void checks.run();
      checks.start();
    },
    /** Removes at once what is too old, unless this was done on the same day. Never rejects. */
    keep: checks.run,
    /** Waits for the work that runs, which then ends early. */
    async close(): Promise<void> {
      isClosed = true;
      await checks.stop();
    },
  };
}
