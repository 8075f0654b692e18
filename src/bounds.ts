/** The bounds that are not settings. Each keeps one caller from using up what others need. */
export const bounds = {
  /** The window of every limit: N requests in any 60 s. */
  limitWindowMs: 60_000,
  /** Teams whose logs are kept. Past it the log idle for longest is removed, once it is empty. */
  teamLogsMax: 100_000,
  /** Keys with a limit of their own whose logs are kept, beside those of teams. */
  keyLogsMax: 100_000,
  /** Store look-ups that found no valid key, per address and window. */
  addressLookupsMax: 60,
  addressLogsMax: 10_000,
  /** How long a look-up waits if its address is at its bound. */
  lookupWaitMsMax: 1_000,
  /** Look-ups in flight at once, of all addresses. */
  lookupsMax: 64,
  /** Look-ups that wait, of all addresses. */
  lookupWaitersMax: 20_000,
  /** Time to write the answers to requests that the drain aborted. */
  abortGraceMs: 1_000,
  /** For this last part of the time of a drain, the ports are closed also where requests run. */
  drainPortClosedMs: 500,
  verifiedKeysMax: 100_000,
  verifiedKeyTtlMs: 60_000,
  /** Ids known not to be in the store. */
  absentKeysMax: 10_000,
  absentKeyTtlMs: 2_000,
  cachedTeamsMax: 100_000,
  cachedAppsMax: 10_000,
  /** How long a floor is kept. Must be longer than any read of the store. */
  floorRetentionMs: 60_000,
  storeTimeoutMs: 1_000,
  /** How long the embedded store, and so the whole process, waits for another program's lock. */
  storeBusyMsMax: 50,
  /**
   * Bytes of the disk that the embedded store keeps for changes that take a right away. SQLite
   * copies its log into the database when the log has 1,000 pages of 4 KiB. The reserve has room
   * for such a log, and for the database to grow by all of it.
   */
  storeReserveBytes: 8 * 1024 * 1024,
  /** How much of it is given up at once: what else fills the disk may take what is free. */
  storeReservePieceBytes: 256 * 1024,
  /** How long a start waits for its data folder, whose lock `keyrun doctor` takes briefly. */
  storeLockMsMax: 250,
  /** How long a start waits to reach MongoDB. */
  storeStartMsMax: 10_000,
  /** The pause before a start begins anew that the store has ended. */
  storeStartPauseMs: 500,
  /** How long a start waits for the indexes of MongoDB. */
  storePrepareMsMax: 60_000,
  /** How long one connection to MongoDB may take to open. */
  storeConnectMsMax: 5_000,
  /** After this long with nothing but UNAVAILABLE from MongoDB, the driver's client is replaced. */
  storeReconnectMs: 3_000,
  /** How long `keyrun doctor` checks whether instances renew their records in MongoDB. */
  servedCheckMs: 2_000,
  /** Changes that a fleet's control document holds. Who missed more drops all that it cached. */
  controlRecentMax: 256,
  /** Instances that a fleet's control document has room for. */
  controlLeasesMax: 64,
  /** How often a write of the control document is tried again because another came first. */
  controlTriesMax: 128,
  /** Connections to MongoDB. */
  storeConnectionsMax: 64,
  /** Last-use times in one message to MongoDB, so that each stays well within `storeTimeoutMs`. */
  usesPerMessageMax: 100,
  /** Last-use times in one write of the embedded store, which takes up to 3 µs for each of them. */
  usesWrittenAtOnce: 2_500,
  /** How many free slots of the team an insert of a key tries before it gives up. */
  slotAttemptsMax: 20,
  /** How often an update of an app is tried again because another change came first. */
  appUpdateTriesMax: 20,
  /** How often a deletion of a team is tried again because another change came first. */
  teamDeleteTriesMax: 20,
  /** How long a creation or deletion of a team waits for earlier ones of the same id. */
  teamMutexWaitMsMax: 10_000,
  /** How often an instance of a fleet renews the mutex of a team id, or tries to take it. */
  teamMutexRenewMs: 500,
  /** How long after its last renewal an instance still works under it. */
  teamMutexHoldMs: 3_000,
  /** How long the record of a mutex must stay unchanged before another instance takes it. */
  teamMutexLapseMs: 6_000,
  /** Creations and deletions of teams that wait so at once, for all ids. */
  teamMutexWaitersMax: 1_000,
  /** Members or records of runs that are deleted in one write. */
  deletedAtOnce: 1_000,
  /** Apps that a refusal names. */
  namedAppsMax: 3,
  /** How long a start waits for instances with which it can't serve a MongoDB database. */
  instanceWaitMsMax: 16_000,
  /**
   * Changes that one push tells the other instances of, and keys that are deleted in one write.
   * Instances know the last 256 changes.
   */
  changesPerPushMax: 128,
  /** Changes whose push failed, and that are pushed again. */
  unpushedChangesMax: 10_000,
  /** Registrations of this process in a fleet that it remembers. */
  ownRegistrationsMax: 64,
  /** How often the files of TLS are read, for a renewed certificate. */
  tlsCheckMs: 5_000,
  /** How long a nudge may take. A slower one is no faster than the heartbeat. */
  nudgeMsMax: 250,
  lastUseFlushMs: 1_000,
  /** Records of runs that a team may have, if its plan allows no more. */
  runRecordsMin: 10_000,
  /** Minutes of the plan's limit that a team's records hold: none younger is removed for room. */
  runRecordMinutes: 60,
  /** How often a claim in MongoDB is tried again because its record was just removed. */
  claimTriesMax: 3,
  /** Bytes of kept answers that the embedded store removes in one write, unless one has more. */
  removedTextBytesAtOnce: 8 * 1024 * 1024,
  idempotencyKeyCharactersMax: 255,
  /** The deadline of unary work that runs no app, unless the caller's is shorter. */
  unaryMsMax: 30_000,
  /** How much later than the longest timeout of an app a run is ended: its own comes first. */
  unaryGraceMs: 1_000,
  /** How late the event loop may be (p99). Later, requests for runs are shed. */
  eventLoopLagMsMax: 200,
  /** How often readiness checks the lease of the store. */
  readinessCheckMs: 1_000,
  /** The pause between two questions of readiness to the store. */
  storeCheckMs: 2_000,
  /** Checks of the store that fail in a row before this instance is not ready. */
  storeCheckFailuresMin: 2,
  /** The times of an app: of a run whose caller waits, of a stream, of a run in the background. */
  appTimeoutMsDefault: 30_000,
  appTimeoutMsMax: 10 * 60 * 1_000,
  appStreamTimeoutMsDefault: 10 * 60 * 1_000,
  appStreamTimeoutMsMax: 60 * 60 * 1_000,
  appBackgroundTimeoutMsDefault: 10 * 60 * 1_000,
  appBackgroundTimeoutMsMax: 60 * 60 * 1_000,
  /** Runs of all apps at once. */
  runsMax: 4_096,
  /** How long after a team has asked for a run another team can't get all of the app's slots. */
  appSharedMs: 60_000,
  /** Apps without a run whose last teams are remembered. */
  rememberedAppsMax: 10_000,
  /** Streams of all apps at once, counted apart from the runs. */
  streamsMax: 4_096,
  /** After how long a caller is told to read a run that was taken on. */
  retryAfterAcceptedS: 2,
  /** Runs in the background of all apps at once, on each instance. */
  backgroundRunsMax: 4_096,
  /**
   * After so much silence a stream sends something that its reader ignores, where its form has
   * that, and its head is sent although the app has not begun to answer. Proxies close what is
   * silent for longer.
   */
  streamQuietMs: 15_000,
  /**
   * How often the rights of a stream are checked again. It ends within a second of losing them.
   */
  streamRecheckMs: 500,
  appTeamsMax: 1_000,
  appUrlCharactersMax: 2_048,
  appHeadersMax: 16,
  appHeaderNameCharactersMax: 64,
  appHeaderValueCharactersMax: 4_096,
  /** The template of an app: its JSON, and each pointer and the event of its streams. */
  appRequestBytesMax: 16 * 1024,
  appRequestInputsMax: 16,
  appPointerCharactersMax: 256,
  /** Teams whose newest key is checked at start for another prefix. */
  keyPrefixTeamsMax: 20,
  labelCodePointsMax: 128,
  /** Code points of a query that searches keys: a label or a full value. */
  keyQueryCodePointsMax: 128,
  /** Keys that a search reads in one step, and the steps of one call: 10,000 keys. */
  keysSearchedAtOnce: 2_000,
  keySearchStepsMax: 5,
  /** Up to which number the revoked keys of a team are counted. */
  revokedKeysCountedMax: 10_000,
  displayNameCodePointsMax: 128,
  pageSizeDefault: 50,
  pageSizeMax: 100,
  retryAfterUnavailableMs: 1_000,
  /** Timers of JavaScript overflow after 24.8 days: a client that waits for longer never waits. */
  quotaRetryAfterMsMax: 24 * 60 * 60 * 1_000,
  /** Calls of `grpc.health.v1.Health/Watch` open at once: they need no credential. */
  healthWatchersMax: 1_000,
  /** A session ends this long after sign-in. */
  sessionMsMax: 12 * 60 * 60 * 1_000,
  /** A session ends this long after the person's last activity. */
  sessionIdleMsMax: 30 * 60 * 1_000,
  /** Sessions of one user at once. Past it the oldest ends. */
  sessionsPerUserMax: 20,
  cachedSessionsMax: 10_000,
  /** Look-ups of sessions in flight at once. */
  sessionLookupsMax: 16,
  /** Look-ups of sessions that wait. */
  sessionLookupWaitersMax: 1_000,
  /** How often ended sessions are removed. */
  sessionSweepMs: 60_000,
  /** How many ended sessions are removed at once. */
  sessionSweepMax: 1_000,
  /** How long a one-time sign-in link works. */
  localLinkMs: 10 * 60 * 1_000,
  /** One-time sign-in links that are not used yet. */
  localLinksMax: 100,
  signInBodyBytesMax: 1_024,
  /** How long a person may take at the issuer. */
  oidcSignInMs: 10 * 60 * 1_000,
  /**
   * Cookies of sign-ins that are under way in one browser. Some ten fit. Proxies take as few as
   * 8 KiB of a header.
   */
  oidcCookieBytesMax: 4 * 1_024,
  /** How long one request to the issuer may take. */
  oidcTimeoutMs: 5_000,
  /** How many times a request for the issuer's metadata is tried. */
  oidcDiscoveryTriesMax: 2,
  /** How long the issuer's metadata is kept. */
  oidcMetadataMs: 60 * 60 * 1_000,
  /** Teams of a person that the screen lists. */
  sessionTeamsMax: 100,
  /** Calls of `KeyService/WatchKeys` open at once. */
  keyWatchersMax: 1_000,
  /** Calls of `KeyService/WatchKeys` open at once for one team. */
  keyWatchersPerTeamMax: 100,
  /** Changes that wait for one watcher. Past it the watcher is too slow, and its stream ends. */
  keyWatchQueueMax: 256,
  /** How often uses of watched keys are read: with the flush, they show within 2 s. */
  keyUsesCheckMs: 500,
  /** How old a use may be that a first read passes on. */
  keyUsesTellMs: 5_000,
  /** The newest active keys of a team whose uses are told. */
  keyUsesWatchedMax: 200,
  /** Changes of watched keys, told by the fleet, that wait to be read. Past it all watches end. */
  keyChangesWaitingMax: 1_024,
  /** How many of them are read from the store at once. */
  keyChangesReadAtOnce: 16,
  keyWatchHeartbeatMs: 15_000,
  /** How often a watcher's access is checked. A stream ends within a second of losing it. */
  keyWatchRecheckMs: 500,
  /**
   * How much of a caller's text a refusal repeats, in bytes of JSON: in its message, and in a name
   * or id. They keep a refusal below 8 KiB over every protocol, with its head, where the same words
   * appear several times, percent-encoded and in base64. Clients of gRPC refuse larger heads.
   */
  refusalMessageBytesMax: 512,
  /** The same of the words of an app that refuses a run: no other text of the refusal is long. */
  appWordsBytesMax: 1_500,
  refusalNameBytesMax: 200,
  /** How many options of an `Accept` or `Accept-Encoding` header are read, and parts of each. */
  preferencesMax: 32,
  preferenceParametersMax: 8,
  /** A run that reserves no more bytes than these is not counted: other bounds limit such runs. */
  uncountedRunBytes: 16 * 1024,
  /**
   * Bytes that the runs of all teams reserve, if the process may use four times as much, and no
   * setting says otherwise.
   */
  runBytesMax: 128 * 1024 * 1024,
  /** Streams that the HTTP/2 sessions without a right key share. Each has one at least. */
  unprovenStreamsMax: 1_024,
  /** Bytes of answers that wait in memory until their callers read them, of all connections. */
  unreadBytesMax: 96 * 1024 * 1024,
  /** The same for one connection. Less than what Node itself allows an HTTP/2 session, 10 MB. */
  unreadBytesPerConnectionMax: 8 * 1024 * 1024,
  /**
   * A connection with no more unread bytes may use the last quarter of `unreadBytesMax`. The
   * connections that one address may have can't fill that quarter.
   */
  littleUnreadBytesMax: 96 * 1024,
  /** How much of a refused body is read and dropped. */
  drainedBodyBytesMax: 16 * 1024 * 1024,
  /** In how many chunks it may come: each costs about a microsecond, however small it is. */
  drainedBodyChunksMax: 65_536,
  drainedBodyMsMax: 10_000,
  /** How long a caller may take to begin it that is refused the 100 for which it may wait. */
  unaskedBodyMsMax: 1_000,
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
  /** How often each instance checks the mark. */
  fleetMarkCheckMs: 5_000,
  /** Characters of the words that say why a call of another server failed. */
  causeCharactersMax: 300,
  /** How deep a cause is searched. */
  causeLevelsMax: 8,
} as const;
