/** The bounds of runs that are not settings: those that only the runner of apps needs. */
export const runBounds = {
  /** Bytes of the answers that are kept for one team. Past them, the oldest lose their texts. */
  keptTextsBytesMax: 256 * 1024 * 1024,
  /** Bytes of an answer that is kept: a document of MongoDB has at most 16 MiB. */
  keptTextBytesMax: 15 * 1024 * 1024,
  /** Bytes of a kept answer that is read in a turn of the event loop of its own. */
  longTextBytes: 64 * 1024,
  /** Records or texts that are removed in one write to make room. */
  roomMadeAtOnce: 100,
  /** Teams whose totals are known in memory. */
  recordTotalsMax: 10_000,
  /**
   * Other instances may add records of a team, too. So its totals are counted in the store again
   * each time that this instance has added this part of a bound.
   */
  recountShare: 64,
  /** A team without room has its records counted at most so often, because a count takes long. */
  recountMsMin: 1_000,
  /**
   * The wall clocks of the machines of a fleet may differ by so much, so a record is kept that much
   * longer.
   */
  clockSkewMsMax: 5_000,
  /** Changes of records in one write, and the bytes of their texts, unless one alone has more. */
  recordChangesAtOnce: 500,
  recordTextBytesAtOnce: 4 * 1024 * 1024,
  /**
   * A request that waits for a run is answered this long before its caller's deadline, because the
   * answer takes time to reach the caller.
   */
  runWaitSpareMs: 200,
  /**
   * When the store fails, the end of a run is written again so often. While so many wait, no run is
   * taken on. Past the bytes the oldest loses its text.
   */
  recordRetryMs: 1_000,
  unwrittenRunsMax: 10_000,
  unwrittenTextBytesMax: 64 * 1024 * 1024,
  /** How often expired records of runs are removed, and how many at once. */
  recordSweepMs: 60_000,
  recordSweepMax: 200,
  /** The longest time that a request for a run, or to start one, waits for its end. */
  runWaitMsMax: 50_000,
  /** Requests of a team that wait on an instance for runs that others began. */
  runWaitsOfTeamMax: 64,
  /** How often the store is asked about the runs of other instances that somebody waits for. */
  runPollMs: 1_000,
  /**
   * How often an instance looks for runs whose instance is gone. It is longer than a lease, so an
   * instance that has one has seen all instances that registered before its last look.
   */
  ownerLookMs: 6_000,
  /** The longest time between two messages of an app that streams. */
  appStreamSilenceMsMax: 60_000,
  /** Bytes of UTF-8 that an app may stream in one run. */
  appStreamBytesMax: 16 * 1024 * 1024,
  /** The same with the framing of its messages and with comments. */
  appStreamBodyBytesMax: 256 * 1024 * 1024,
  /** Bytes of UTF-8 in one message of a stream. */
  streamDeltaBytesMax: 64 * 1024,
  /**
   * How much of an HTTP app's answer waits for its reader before no more is read. What was read
   * with the last of it waits too: up to one read, 64 KiB, more.
   */
  streamAheadBytes: 16 * 1024,
  /** How many of its messages become one piece of the output. Each takes about 1 µs. */
  streamJoinedMessages: 500,
  /**
   * How much text of a gRPC app waits before no other message is asked for: each takes 10 µs. The
   * last message waits too, whatever its length is.
   */
  grpcStreamAheadCharacters: 128,
  /** From this length on, a piece of what the built-in app says takes no other word. */
  echoPieceCharacters: 16 * 1024,
  /** How long the look-up of a backend's host name may take. */
  hostLookupMsMax: 5_000,
  /** How long a name server may take before it is asked again. */
  hostLookupRetryMs: 1_000,
  /** How long a look-up that has addresses of one family waits for those of the other. */
  hostLookupOtherFamilyMsMax: 500,
  /** Host names looked up at once. Each takes a socket. */
  hostLookupsMax: 256,
  /** Host names whose addresses are kept. */
  keptHostsMax: 1_000,
  /** How long the addresses of a host are kept if the source doesn't say: `/etc/hosts`, for one. */
  keptHostMs: 10_000,
  /** How long they are kept at most, if the name server says longer. */
  keptHostMsMax: 3_600_000,
  /** How much of `/etc/hosts` and `/etc/resolv.conf` is read. */
  nameFileBytesMax: 4 * 1024 * 1024,
  /** Search domains that are tried for one name. */
  searchDomainsMax: 32,
  /** How long the connection to a backend may take, with the look-up of its name and with TLS. */
  backendConnectMsMax: 5_000,
  /**
   * After a call with so long a body, the connection is not used again. An app may answer before it
   * has read the whole body, and the rest would be read as the beginning of the next call.
   */
  backendLongBodyBytes: 256 * 1024,
  /** Size of the headers that an HTTP backend may answer with. */
  backendHeaderBytesMax: 16 * 1024,
  /** Heads with a status below 200, such as 100, that an HTTP backend may send for a run. */
  backendInterimHeadsMax: 64,
  /** Bytes that are read of an answer with which an app refuses a run. */
  appRefusalBytesMax: 16 * 1024,
  /** Characters of the words for its caller. */
  appWordsMax: 1_000,
  /** Of the faults that an app lists, how many its caller gets. */
  appFaultsMax: 20,
  /** The value of a header whose name says that it is secret is cut out from this length on. */
  namedSecretCharactersMin: 6,
  /** The same for any other header whose value has letters and digits and no space. */
  otherSecretCharactersMin: 16,
  /** A busy app says how long to wait. A wait outside of these bounds is brought within them. */
  appBusyMsMin: 1_000,
  appBusyMsMax: 60_000,
  /** Apps on HTTP backends whose connections are kept while they have no run. */
  backendIdleAppsMax: 256,
  /** How long an unused connection is kept: less than the 5 s after which many servers close it. */
  backendSocketIdleMs: 4_000,
  /** After so much silence the system asks whether the other end of a connection is still there. */
  backendSilenceMs: 60_000,
  /**
   * The same by a PING of HTTP/2 to a gRPC server with a run, and how long its answer may take.
   * Servers close a connection that asks more often than every 5 minutes.
   */
  backendPingMs: 330_000,
  backendPingAnswerMsMax: 60_000,
  /** An unused connection is closed this long before its server has said to close it. */
  backendKeepAliveMarginMs: 1_000,
  /** A run may wait before it is sent, so `X-Keyrun-Deadline-Ms` may be too high by so much. */
  backendDeadlineErrorMsMax: 20,
  /** Unused gRPC channels kept. */
  backendIdleChannelsMax: 256,
  /** How long an unused gRPC channel keeps its connection. */
  backendChannelIdleMs: 300_000,
  /** The longest wait between attempts to reach a gRPC backend, so that runs resume soon. */
  backendReconnectMsMax: 1_000,
} as const;
