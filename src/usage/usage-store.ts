/** What is kept of the use of keys, its bounds, and the port of the store. */

import { z } from "zod";
import { filled, timeMs } from "../base/record-fields.ts";

/** How a key was used within an hour, or within a day of UTC. */
export const usageRecord = z.strictObject({
  teamId: filled,
  keyId: filled,
  /** The beginning of the hour or the day. */
  startTimeMs: timeMs,
  acceptedCount: z.int().nonnegative(),
  limitedCount: z.int().nonnegative(),
  failedCount: z.int().nonnegative(),
  /** The sum of the time that apps took, in whole milliseconds. */
  appMs: z.int().nonnegative(),
});
export type UsageRecord = Readonly<z.infer<typeof usageRecord>>;
/** How keys were used within some time. */
export type UsageCounts = Omit<UsageRecord, "teamId" | "keyId" | "startTimeMs">;

/** The beginning of the day of UTC. */
export function startOfDay(unixMs: number): number {
  return unixMs - (unixMs % dayMs);
}

/** What a process has counted and the store has not. */
export interface UsageBatch {
  /** Of the process, and of no other one. */
  readonly incarnation: string;
  /** Each batch of an incarnation has a larger one than those before. */
  readonly number: number;
  /** At most one record for each hour and key. */
  readonly hours: readonly UsageRecord[];
}

export interface UsageQuery {
  readonly teamId: string;
  /** Only this key. */
  readonly keyId?: string | undefined;
  /** Only these keys, each for itself. */
  readonly keyIds?: readonly string[] | undefined;
  /** From this time on: the beginning of a day or an hour. */
  readonly fromMs: number;
  /** Up to this time, and without it: the beginning of a day or an hour. */
  readonly untilMs: number;
}

/** The counts of one hour or day. `keyId` is empty where all keys count together. */
export interface UsageSum extends UsageCounts {
  readonly startTimeMs: number;
  readonly keyId: string;
}

/** How the keys of all teams were used. Promises as in `KeyStore`. */
export interface UsageStore {
  /**
   * Adds the counts to those of their hours and days. Where it throws, some may have been added:
   * repeat the batch before a later one of its incarnation, and none of them is added twice.
   */
  add(batch: UsageBatch): Promise<void>;
  /** The sums of hours, in no order. An hour without a count is absent. */
  hours(query: UsageQuery): Promise<UsageSum[]>;
  /** The sums of days, in no order. A day without a count is absent. */
  days(query: UsageQuery): Promise<UsageSum[]>;
  /** The first team after this id that has hours or days; undefined if there is none. */
  teamAfter(teamId: string): Promise<string | undefined>;
  /**
   * Removes hours of the team of days that began before `beforeMs`, at most `limit`. Returns how
   * many were removed; 0 only if there are none. One may hold the hours of a whole day.
   */
  deleteHours(teamId: string, query: { beforeMs: number; limit: number }): Promise<number>;
  /** Removes days of the team in the same way. */
  deleteDays(teamId: string, query: { beforeMs: number; limit: number }): Promise<number>;
}

/** The bounds of counting usage. */
export const usageBounds = {
  /** How often counts are written. A killed process loses at most what it counted since. */
  flushMs: 10_000,
  /**
   * Keys times hours that are counted until the next write. Past it, a further key is not counted.
   * A write that failed may hold as many.
   */
  pendingCountsMax: 200_000,
  /** Deleted keys whose runs are not counted when they end. The first one goes past it. */
  deletedKeysMax: 20_000,
  /** Counts in one write: a write of the embedded store stops all other work. */
  countsPerWriteMax: 500,
  /** How long hours are kept, and days: 13 months. */
  hoursKeptDays: 35,
  daysKeptDays: 396,
  /** How often it is checked whether a day has ended, and so something is too old. */
  keeperCheckMs: 60_000,
  /** Hours, or days, that are removed in one write. */
  removedAtOnce: 500,
  /** Points in one answer. */
  pointsMax: 1_000,
  /** Keys that one answer tells each for itself, and the numbers for all of them. */
  listedKeysMax: 100,
  listedNumbersMax: 10_000,
} as const;

export const hourMs = 3_600_000;
export const dayMs = 86_400_000;
