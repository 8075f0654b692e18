/** The bounds of the audit log. */
export const auditBounds = {
  /** Joined events of one hour, on each instance. The last one counts what is beyond. */
  joinedEventsPerHourMax: 1_000,
  /** Refused attempts of known callers in a minute that get an event each. More are joined. */
  refusedPerMinuteMax: 300,
  /** Events that wait to be written while the store does not answer. More are in the log alone. */
  waitingEventsMax: 2_000,
  /** Events that are written at once. */
  writtenAtOnceMax: 200,
  /** How long events wait after a write that failed. */
  retryMs: 5_000,
  /** How often joined events whose minute is over are written. */
  joinedFlushMs: 5_000,
  /** How often old events are removed, and how many at once: a batch holds up all other work. */
  sweepMs: 60_000,
  sweepMax: 500,
  /** Between two batches of one sweep. */
  sweepPauseMs: 50,
  /** Events of a changed secret that a start looks through for the last one. */
  secretEventsMax: 20,
  /** The longest time from the begin of a team's creation to the team's time of creation. */
  creationMsMax: 60_000,
  /** The largest count of one event. */
  countMax: 2_147_483_647,
} as const;
