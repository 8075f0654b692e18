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
