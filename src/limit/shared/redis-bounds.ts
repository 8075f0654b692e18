/** The bounds of what a fleet shares in Redis. */
export const redisBounds = {
  /** How long a call to Redis may take, and the opening of a connection. */
  redisCallMsMax: 100,
  /** The least time between two attempts to open a connection to Redis. */
  redisReopenMs: 1_000,
  /** How long a start tries to reach Redis, and how long each attempt may take. */
  redisStartMsMax: 5_000,
  redisStartTryMsMax: 1_000,
  /** Asks in one call to Redis; alike requests of a team that arrive together are one ask. */
  sharedAsksPerCallMax: 500,
  /** How much longer a call to Redis may take because this process is busy. */
  sharedCallLagMsMax: 2_000,
  /** How often a call is repeated that came too late to be counted. */
  sharedCallRepeatsMax: 16,
  /** How long the mark of a fleet stays in Redis after its last instance has left it. */
  fleetMarkMs: 60_000,
  /** How often each instance looks at the mark. */
  fleetMarkLookMs: 5_000,
} as const;
