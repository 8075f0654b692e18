import { setImmediate } from "node:timers/promises";
import type { Clock } from "../base/clock.ts";
import { dayMs, type UsageHour, type UsageStore, usageBounds } from "./usage-store.ts";

/**
 * Sets the days that are over from their hours, and removes what is older than it is kept. It goes
 * through all teams once a day, and after a failure. Every instance of a fleet does it: a day
 * is only ever raised, to sums that only grow. Hours are removed once their day was set from them,
 * so a day that lacks some of its hours by then is never set to less.
 */
export function createUsageKeeper(parts: {
  readonly clock: Clock;
  readonly store: UsageStore;
  /** Called with the cause when the work fails. It is done again later. */
  readonly onFailed: (cause: unknown) => void;
  readonly checkMs?: number;
}) {
  const { clock, store, onFailed, checkMs = usageBounds.keeperCheckMs } = parts;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let keptUntilMs = Number.NEGATIVE_INFINITY;
  /** The oldest day that has got hours since it was set. */
  let lateMs = Number.POSITIVE_INFINITY;
  let isClosed = false;

  async function keepAll(): Promise<void> {
    const todayMs = dayOf(clock.unixMs());
    const againMs = lateMs;
    lateMs = Number.POSITIVE_INFINITY;
    try {
      let teamId = await store.teamAfter("");
      while (teamId !== undefined && !isClosed) {
        await keepTeam(teamId, { todayMs, againMs });
        teamId = await store.teamAfter(teamId);
      }
      keptUntilMs = todayMs;
    } catch (cause) {
      lateMs = Math.min(lateMs, againMs);
      onFailed(cause);
    }
  }

  /** In small steps: a write of the embedded store stops all other work. */
  async function keepTeam(
    teamId: string,
    { todayMs, againMs }: { readonly todayMs: number; readonly againMs: number },
  ): Promise<void> {
    const hoursFromMs = todayMs - usageBounds.hoursKeptDays * dayMs;
    // The newest day may have been set by half.
    const setMs = (await store.newestDay(teamId)) ?? Number.NEGATIVE_INFINITY;
    for (const startMs of await store.daysWithHours(teamId)) {
      if (startMs >= todayMs || isClosed) break;
      const isOld = startMs < hoursFromMs;
      if (isOld || startMs >= Math.min(setMs, againMs)) await store.setDay(teamId, startMs);
      if (isOld) await removeAll(store.deleteHours, teamId, startMs + dayMs);
      await setImmediate();
    }
    await removeAll(store.deleteDays, teamId, todayMs - usageBounds.daysKeptDays * dayMs);
  }

  async function removeAll(
    remove: UsageStore["deleteHours"],
    teamId: string,
    beforeMs: number,
  ): Promise<void> {
    while (!isClosed && (await remove(teamId, { beforeMs, limit: usageBounds.removedAtOnce })) > 0) {
      await setImmediate();
    }
  }

  /** Does at once what is to be done. Never rejects. */
  async function keep(): Promise<void> {
    running ??= keepAll().finally(() => {
      running = undefined;
    });
    await running;
  }

  return {
    /** Starts to check from time to time. The timer does not keep the process alive. */
    start(): void {
      void keep();
      timer ??= setInterval(() => {
        if (dayOf(clock.unixMs()) !== keptUntilMs || lateMs < Number.POSITIVE_INFINITY) void keep();
      }, checkMs).unref();
    },
    /** These hours were written: if their day is over, it is set again. */
    written(hours: readonly UsageHour[]): void {
      const todayMs = dayOf(clock.unixMs());
      for (const { startTimeMs } of hours) {
        const startMs = dayOf(startTimeMs);
        if (startMs < todayMs) lateMs = Math.min(lateMs, startMs);
      }
    },
    keep,
    /** Waits for the work that runs, which then ends early. */
    async close(): Promise<void> {
      isClosed = true;
      clearInterval(timer);
      await running;
    },
  };
}

/** The beginning of the day, in UTC, that holds the time. */
export function dayOf(unixMs: number): number {
  return Math.floor(unixMs / dayMs) * dayMs;
}
