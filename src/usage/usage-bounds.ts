/** The bounds of counting usage. */
export const usageBounds = {
  /** How often counts are written. A killed process loses at most what it counted since. */
  flushMs: 10_000,
  /** Keys times hours whose counts are in memory. Past it, a further key is not counted. */
  heldCountsMax: 200_000,
  /** Counts of one page. A page that is fuller is closed, so that it can go once it is written. */
  pageCountsMax: 100_000,
  /** Deleted keys whose runs are not counted when they end. The first one goes past it. */
  deletedKeysMax: 20_000,
  /** Counts in one write: a write of the embedded store stops all other work. */
  countsPerWriteMax: 1_000,
  /** How long hours are kept, and days: 13 months. */
  hoursKeptDays: 35,
  daysKeptDays: 396,
  /** How often it is looked whether a day has ended. */
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
