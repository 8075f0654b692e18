/** The plans, smallest first. */
export const planNames = ["free", "pro", "team", "enterprise"] as const;
export type PlanName = (typeof planNames)[number];

/** What the operator decides, read once from the environment by `settings.ts` and frozen. */
export interface Config {
  /** The public listener. Port 0 picks a free one. */
  readonly host: string;
  readonly port: number;
  /** The internal listener. Port 0 picks a free one. */
  readonly grpcHost: string;
  readonly grpcPort: number;
  /** TLS of the internal listener, as file paths; undefined: plaintext. */
  readonly grpcTls:
    | { readonly certFile: string; readonly keyFile: string; readonly clientCaFile: string }
    | undefined;
  /** Where the embedded store, the secrets made at first start and `grpc-address` live. */
  readonly dataDir: string;
  /** Undefined: the embedded store. */
  readonly mongodbUri: string | undefined;
  /** Service secrets, newest first, each at least 32 bytes; undefined: made at first start in the data folder. */
  readonly secrets: readonly Buffer[] | undefined;
  /** Undefined: made at first start in the data folder. */
  readonly serviceToken: string | undefined;
  /** Requests a minute of each plan, 1 to 100,000. */
  readonly planLimits: Readonly<Record<PlanName, number>>;
  readonly keyPrefix: string;
  readonly keysPerTeamMax: number;
  readonly bodyBytesMax: number;
  readonly appOutputBytesMax: number;
  /** Runs of one app at once. */
  readonly appRunsMax: number;
  readonly connectionsMax: number;
  /** Connections of one address at once; undefined: no bound of its own. Off for loopback peers. */
  readonly connectionsPerAddressMax: number | undefined;
  /** How many proxies in front may be believed about the client's address. */
  readonly trustProxyHops: number;
  /** Where browsers reach the screen: scheme, host and port; undefined: at the public listener's own address. */
  readonly publicUrl: string | undefined;
  /** Who says who people are; undefined: one-time links on the loopback, and no sign-in elsewhere. */
  readonly oidc: OidcConfig | undefined;
  readonly drainDelayMs: number;
  readonly drainMsMax: number;
  readonly logLevel: "fatal" | "error" | "warn" | "info" | "debug" | "trace" | "silent";
}

/** The OpenID Connect issuer that people sign in with, and what it knows Keyrun by. */
export interface OidcConfig {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

/** The bounds that are not settings. Each is there so that one caller can't take what others need. */
export const bounds = {
  /** The window of every limit: N requests in any 60 s. */
  limitWindowMs: 60_000,
  /** Teams whose logs are held at once; past it the log idle longest goes first, and only once it is empty. */
  teamLogsMax: 100_000,
  /** Store look-ups a window that found no valid key, for one address. */
  addressLookupsMax: 60,
  addressLogsMax: 10_000,
  /** How long a look-up of an address at its bound waits for its turn. */
  lookupWaitMsMax: 1_000,
  /** Look-ups in flight at once, of all addresses. */
  lookupsMax: 64,
  /** Look-ups that wait for their turn, of all addresses. */
  lookupWaitersMax: 20_000,
  /** How long answers to requests that the drain aborted may take to be written. */
  abortGraceMs: 1_000,
  verifiedKeysMax: 100_000,
  verifiedKeyTtlMs: 60_000,
  /** Ids that are not in the store. */
  absentKeysMax: 10_000,
  absentKeyTtlMs: 2_000,
  cachedTeamsMax: 100_000,
  cachedAppsMax: 10_000,
  /** How long a floor is kept: longer than any read of the store may take. */
  floorRetentionMs: 60_000,
  storeTimeoutMs: 1_000,
  /** How long the embedded store waits for a lock that another program holds: the whole process waits with it. */
  storeBusyMsMax: 50,
  /** How long a start waits for MongoDB to be reached, and then for its indexes and migrations. */
  storeStartMsMax: 10_000,
  storePrepareMsMax: 60_000,
  /** How long it may take to open one connection to MongoDB. */
  storeConnectMsMax: 5_000,
  /** How long nothing but UNAVAILABLE may come from MongoDB before the driver's client starts afresh. */
  storeRevivalMs: 10_000,
  /** Connections to MongoDB. */
  storeConnectionsMax: 64,
  /** Last-use times in one message to MongoDB, so that each is well within `storeTimeoutMs`. */
  usesPerMessageMax: 100,
  /** How often an insert of a key tries another free slot of the team before it gives up. */
  slotAttemptsMax: 20,
  /** How often an update of an app reads it anew because another change came between, before it gives up. */
  appUpdateTriesMax: 20,
  /** The record of the one instance that MongoDB serves: how often it is renewed, */
  instanceRenewMs: 1_000,
  /** for how long after the last renewal the instance admits requests, */
  instanceHoldMs: 5_000,
  /** when a successor may take over from one that it sees unchanged, */
  instanceLapseMs: 15_000,
  /** and how long a start waits for that. */
  instanceWaitMsMax: 16_000,
  lastUseFlushMs: 1_000,
  /** Unary work runs under the caller's deadline or this, whichever is less. */
  unaryMsMax: 30_000,
  /** How much later than that the work is cut where the caller set no deadline: an app's own timeout comes first. */
  unaryGraceMs: 1_000,
  /** How often readiness looks whether the store is still held. */
  readinessLookMs: 1_000,
  appTimeoutMsMax: 30_000,
  /** Runs of all apps at once, whatever one app may have. */
  runsMax: 4_096,
  appTeamsMax: 1_000,
  appUrlCharactersMax: 2_048,
  appHeadersMax: 16,
  appHeaderNameCharactersMax: 64,
  appHeaderValueCharactersMax: 4_096,
  /** Headers that an HTTP backend may answer with. */
  backendHeaderBytesMax: 16 * 1024,
  /** Unused connections kept for one HTTP backend, and for how long: less than the 5 s after which many servers close. */
  backendIdleSocketsMax: 16,
  backendSocketIdleMs: 4_000,
  /** gRPC channels kept while no run uses them, and how long one of them keeps its connection. */
  backendIdleChannelsMax: 256,
  backendChannelIdleMs: 300_000,
  /** The longest wait between attempts to reach a gRPC backend again, so that it is back soon after it is up. */
  backendReconnectMsMax: 1_000,
  /** Teams whose newest key a start looks at for another prefix. */
  keyPrefixTeamsMax: 20,
  labelCodePointsMax: 128,
  displayNameCodePointsMax: 128,
  pageSizeDefault: 50,
  pageSizeMax: 100,
  retryAfterUnavailableMs: 1_000,
  /** Calls of `grpc.health.v1.Health/Watch` open at once: they need no credential. */
  healthWatchersMax: 1_000,
  /** A session ends this long after sign-in, */
  sessionMsMax: 12 * 60 * 60 * 1_000,
  /** and this long after the person last did something. */
  sessionIdleMsMax: 30 * 60 * 1_000,
  /** Sessions of one user at once; the oldest goes. */
  sessionsPerUserMax: 20,
  cachedSessionsMax: 10_000,
  /** Look-ups of sessions in flight at once, and those that wait for their turn. */
  sessionLookupsMax: 16,
  sessionLookupWaitersMax: 1_000,
  /** How often sessions that are over are removed, and how many at once. */
  sessionSweepMs: 60_000,
  sessionSweepMax: 1_000,
  /** How long a one-time sign-in link works, and how many wait to be used. */
  localLinkMs: 10 * 60 * 1_000,
  localLinksMax: 100,
  signInBodyBytesMax: 1_024,
  /** How long a person may take at the issuer. */
  oidcSignInMs: 10 * 60 * 1_000,
  /** How long one request to the issuer may take, how often its metadata is asked for, and how long that is kept. */
  oidcTimeoutMs: 5_000,
  oidcDiscoveryTriesMax: 2,
  oidcMetadataMs: 60 * 60 * 1_000,
  /** Teams that the screen is told of. */
  sessionTeamsMax: 100,
  /** Calls of `KeyService/WatchKeys` open at once, and of one team. */
  keyWatchersMax: 1_000,
  keyWatchersPerTeamMax: 100,
  /** Changes that wait for one watcher; past it the watcher is too slow, and ended. */
  keyWatchQueueMax: 256,
  keyWatchHeartbeatMs: 15_000,
  /** How often a watcher's right to watch is looked at: it ends at most a second after it lost that. */
  keyWatchRecheckMs: 500,
  /** What is read and dropped of a body that was refused before it was read. */
  drainedBodyBytesMax: 16 * 1024 * 1024,
  drainedBodyMsMax: 10_000,
} as const;
