/** The bounds of the screen, each with its name. Those that the server has too are proved equal by a test. */
export const bounds = {
  labelCodePointsMax: 128,
  /** From here on the label field says how much of it is used. */
  labelCounterCodePoints: 100,
  keysPageSize: 50,
  appsPageSize: 100,
  /** A call is given up after this; the server works no longer on one either. */
  callMsMax: 30_000,
  /** A read that failed for want of a connection is tried once more, after this. */
  readRetryMs: 500,
  /** How often the usage is looked at while the page is seen. */
  usagePollMs: 5_000,
  /** How often the list is read again: the stream tells of no uses, so last-used times need it too. */
  listRefreshMs: 30_000,
  /** The same while live updates are paused. */
  pausedListRefreshMs: 15_000,
  /** Silence after which a stream is taken for lost: two heartbeats of 15 s and some. */
  watchSilenceMsMax: 40_000,
  /** Waits between attempts to open the stream: doubled from the first to the last, less a random part. */
  watchRetryMsMin: 500,
  watchRetryMsMax: 15_000,
  /** No skeleton for a list that is there sooner. */
  skeletonDelayMs: 200,
  /** How long a row that someone else revoked says so before it goes. */
  departingRowMs: 5_000,
  copiedMs: 2_000,
  statusMs: 6_000,
  /** A key used within this time is revoked with a warning. */
  recentUseMs: 24 * 60 * 60 * 1_000,
  /** What is shown of a test request's answer. */
  shownAnswerCharactersMax: 2_000,
  /** How often the sign-in page asks whether another tab has signed in. */
  signInPollMs: 5_000,
} as const;
