/** What is kept of the use of keys, its bounds, and the port of the store. */

/** How keys were used within some time. */
export interface UsageCounts {
  readonly acceptedCount: number;
  readonly limitedCount: number;
  readonly failedCount: number;
  /** The sum of the time that apps took, in whole milliseconds. */
  readonly appMs: number;
}

/**
 * What one incarnation of a process has counted for a key within an hour: all of it, not what has
 * come since an earlier write. So a write that is repeated changes nothing.
 */
export interface UsageHour extends UsageCounts {
  readonly teamId: string;
  readonly keyId: string;
  /** The beginning of the hour. */
  readonly startTimeMs: number;
  readonly incarnation: string;
}

/** How a key was used within a day of UTC. */
export interface UsageDay extends UsageCounts {
  readonly teamId: string;
  readonly keyId: string;
  /** The beginning of the day. */
  readonly startTimeMs: number;
}

/** What one incarnation has counted within an hour. */
export type CountedPage = Pick<UsageHour, "startTimeMs" | "incarnation">;

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
   * Raises each count to the given one, and adds what is not there. Never lowers one. Each hour
   * has a count that is not 0. Where it throws, each of the hours may have been written.
   */
  recordHours(hours: readonly UsageHour[]): Promise<void>;
  /**
   * The sums of hours over all incarnations, but those of `except`, in no order. An hour without a
   * count is absent.
   */
  hours(query: UsageQuery & { readonly except: readonly CountedPage[] }): Promise<UsageSum[]>;
  /** The days, in no order. A day without a count is absent. */
  days(query: UsageQuery): Promise<UsageSum[]>;
  /** Raises the team's day to the sums of its hours. Never lowers a count of it. */
  setDay(teamId: string, startTimeMs: number): Promise<void>;
  /** The newest day of the team that was set; undefined if none was. */
  newestDay(teamId: string): Promise<number | undefined>;
  /** The days of which the team has hours, in order. */
  daysWithHours(teamId: string): Promise<number[]>;
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
  /** Keys times hours whose counts are in memory. Past it, a further key is not counted. */
  pendingCountsMax: 200_000,
  /** Counts of one page. A page that is fuller is closed, so that it can go once it is written. */
  pageCountsMax: 100_000,
  /** Deleted keys whose runs are not counted when they end. The first one goes past it. */
  deletedKeysMax: 20_000,
  /** Counts in one write: a write of the embedded store stops all other work. */
  countsPerWriteMax: 1_000,
  /** How long hours are kept, and days: 13 months. */
  hoursKeptDays: 35,
  daysKeptDays: 396,
  /** How often it is checked whether a day has ended. */
  keeperCheckMs: 60_000,
  /** Hours, or days, that are removed in one write. */
  removedAtOnce: 500,
  /** Points in one answer. */
  pointsMax: 1_000,
  /** Keys that one answer tells each for itself, and the numbers for all of them. */
  listedKeysMax: 100,
  listedNumbersMax: 10_000,
  /** Days for which the hours are asked, too: hours of these days may not be in the day yet. */
  openDays: 2,
} as const;

export const hourMs = 3_600_000;
export const dayMs = 86_400_000;
