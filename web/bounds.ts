/** The bounds of the screen. A test proves that those which the server also has are equal there. */
export const bounds = {
  labelCodePointsMax: 128,
  /** From this length on, the label field shows how much of the limit is used. */
  labelCounterCodePoints: 100,
  /** A longer label may be cut off in a title, so it stands below it in full. */
  titleLabelCodePoints: 20,
  keysPageSize: 50,
  keyQueryCodePointsMax: 128,
  /** How long the search waits for the next letter before it asks Keyrun. */
  searchDelayMs: 250,
  /** From this number of keys on, the list can be searched, filtered and sorted. */
  keysToSearchMin: 6,
  /** A team with more past keys than this sees them in the order of their creation. */
  pastKeysSortedMax: 500,
  /** A key that was not used for this long may be one that nobody needs any more. */
  unusedMs: 90 * 24 * 60 * 60 * 1_000,
  appsPageSize: 100,
  /** The screen gives up on a call after this time, and so does the server. */
  callMsMax: 30_000,
  /** A longer message of a stream is refused. A key with all of its fields has 1 kB. */
  streamMessageBytesMax: 65_536,
  /** The wait before a read is tried once more, when it got no answer or Keyrun was unavailable. */
  readRetryMs: 500,
  /** How often the usage is read while the page is in view. */
  usagePollMs: 5_000,
  /** The least time between two such reads, also when requests work again sooner. */
  usagePollMsMin: 1_000,
  /** How often the list is read, for uses that the stream left out. */
  listRefreshMs: 30_000,
  /** The same while live updates are paused. */
  pausedListRefreshMs: 15_000,
  /** The least time between two reads of a key whose expiry has come by this page's clock. */
  expiryReadMs: 5_000,
  /** A stream that is silent for this long is lost: two heartbeats of 15 s, and some more. */
  watchSilenceMsMax: 40_000,
  /**
   * The wait before the stream is opened again. It doubles from the least to the most, less a
   * random part.
   */
  watchRetryMsMin: 500,
  watchRetryMsMax: 15_000,
  /** A list that arrives sooner shows no skeleton. */
  skeletonDelayMs: 200,
  /** How long the row of a key that someone else revoked stays, and says so. */
  departingRowMs: 5_000,
  copiedMs: 2_000,
  statusMs: 6_000,
  /** The dialog warns before it revokes a key that was used within this time. */
  recentUseMs: 24 * 60 * 60 * 1_000,
  /** The longest time for which a test request waits: the longest timeout of an app, and a bit. */
  testRequestMsMax: 605_000,
  /** A longer answer to a test request is cut to this length. */
  shownAnswerCharactersMax: 2_000,
  /** The time before its end in which a key is marked. */
  expiresSoonMs: 14 * 24 * 60 * 60 * 1_000,
  /** A key's expiry is at most this far away. The server has ten years of 365 days. */
  expiryDaysMax: 3_650,
  /** The most apps that a key can be restricted to. */
  keyAppsMax: 100,
  /** How often the usage of the last hours is read while the page is in view. */
  usageHistoryPollMs: 30_000,
  /** The most keys of which one call tells the usage. */
  usageKeysMax: 100,
  /** How often the activity is read while its page is in view. */
  activityPollMs: 5_000,
  activityPageSize: 50,
  /** With more events than this, the first page of the activity begins anew. */
  activityEventsMax: 1_000,
  /** How many of a team's keys the activity can name. */
  keyNamesPageSize: 100,
  /** How often the sign-in page asks whether another tab has signed in. */
  signInPollMs: 5_000,
} as const;
