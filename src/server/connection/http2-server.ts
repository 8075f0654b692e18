/**
 * Node's HTTP/2 server on sockets that another server accepted: limits of its sessions, and of the
 * streams of each.
 */

import {
  constants,
  createServer,
  type Http2ServerResponse,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { hasReadLately, isHttp2Response, type NodeRequest, type NodeResponse } from "../node-http.ts";
import { errorCode, type Report, type TransportLimits } from "../transport.ts";
import type { UnreadAnswers, UnreadConnection } from "../unread-answers.ts";

export interface Http2ServerOptions {
  readonly limits: TransportLimits;
  /** The answers that are not finished, over HTTP/1.1 and HTTP/2. */
  readonly running: Iterable<NodeResponse>;
  readonly unread: UnreadAnswers;
  /** See `ListenerOptions`. */
  readonly unprovenStreamsMax: number | undefined;
  readonly report: Report;
}

/** Serves HTTP/2 on sockets that another server accepted. */
export function createHttp2Acceptor(options: Http2ServerOptions) {
  const { limits, running, unread, report } = options;
  const server = createServer(http2Options(limits));
  const sessions = new Set<ServerHttp2Session>();
  const shareStreams = createStreamShares(limits, options.unprovenStreamsMax);
  server.on("sessionError", (error) => report({ kind: "session_failed", code: errorCode(error) }));
  return {
    /** Emits `request` and `checkContinue`, as `node:http` does. */
    server,
    sessions: sessions as ReadonlySet<ServerHttp2Session>,
    /** Takes over a socket whose next bytes are HTTP/2's preface. */
    accept(socket: Socket): void {
      if (socket.destroyed) return;
      // HTTP/1.1's server accepts half-open sockets. A session whose peer has closed its end would
      // stay open for ever while one of its streams is answered.
      socket.allowHalfOpen = false;
      server.once("session", (session) => {
        sessions.add(session);
        shareStreams(session, socket, unread.add(session, socket, "http2"));
        socket.once("close", () => sessions.delete(session));
        limitIdleTime(session, { socket, limits, running });
      });
      joinWhatCame(socket);
      server.emit("connection", socket);
    },
    /**
     * Closes every open session. Its running requests may end. A request that crosses the GOAWAY is
     * refused unprocessed, so its client knows that it may send it again (RFC 9113, section 8.7).
     */
    closeSessions(): void {
      for (const session of sessions) session.close();
    },
  };
}

/**
 * Makes one chunk of what a socket has read. Node 26 gives a session what came before it chunk by
 * chunk, also after one that ended it, and then throws where nobody can catch it.
 */
function joinWhatCame(socket: Socket): void {
  const chunks: Buffer[] = [];
  for (let chunk = socket.read(); chunk !== null; chunk = socket.read()) chunks.push(chunk);
  if (chunks.length > 0) socket.unshift(Buffer.concat(chunks));
}

/**
 * Everything that arrives on a session at once is parsed in one turn of the event loop, and Node
 * can't be told to read less of it: 200 sessions of 128 streams each held everybody up for 2 s. So
 * sessions on which no key was right yet share a number of streams: the more of them there are, the
 * fewer the next one gets. Its client is told so (SETTINGS), and gets the others with its first
 * right key. Streams past that are refused unprocessed, without a word of ours.
 */
function createStreamShares(
  { concurrentStreamsMax }: TransportLimits,
  unprovenStreamsMax = Number.POSITIVE_INFINITY,
): (session: ServerHttp2Session, socket: Socket, connection: UnreadConnection) => void {
  let unproven = 0;
  return (session, socket, connection) => {
    unproven += 1;
    const share = Math.max(1, Math.floor(unprovenStreamsMax / unproven));
    const isLess = share < concurrentStreamsMax;
    if (isLess) session.settings({ maxConcurrentStreams: share });
    socket.once("close", () => {
      if (!connection.isProven) unproven -= 1;
    });
    connection.onProven = () => {
      unproven -= 1;
      if (isLess && !session.destroyed) session.settings({ maxConcurrentStreams: concurrentStreamsMax });
    };
  };
}

/** RFC 9113 counts so many bytes for each header, in addition to its name and value. */
const headerOverheadBytes = 32;

function http2Options(limits: TransportLimits) {
  return {
    maxSessionMemory: limits.sessionMemoryMegabytesMax,
    // Node resets a stream with more headers, without an answer, a log line or a count. This number
    // is as many headers as fit into the bytes (RFC 9113, section 6.5.2). `createHeadCheck` refuses
    // requests between our bound and this number.
    maxHeaderListPairs: Math.floor(limits.headerBytesMax / headerOverheadBytes),
    maxSessionInvalidFrames: limits.invalidFramesMax,
    maxSessionRejectedStreams: limits.rejectedStreamsMax,
    maxOutstandingPings: limits.outstandingPingsMax,
    maxSettings: limits.settingsMax,
    streamResetBurst: limits.streamResetBurst,
    streamResetRate: limits.streamResetsPerSecond,
    settings: {
      maxConcurrentStreams: limits.concurrentStreamsMax,
      maxHeaderListSize: limits.headerBytesMax,
      enablePush: false,
    },
  };
}

/**
 * Closes a session that does not finish its handshake, and later a session without running requests
 * on which no frame arrives or leaves. Part of a frame does not count, so this also closes a
 * session whose headers never end.
 */
function limitIdleTime(
  session: ServerHttp2Session,
  { socket, limits, running }: { socket: Socket; limits: TransportLimits; running: Iterable<NodeResponse> },
): void {
  session.setTimeout(limits.headersMsMax);
  session.once("remoteSettings", () => session.setTimeout(limits.keepAliveMs));
  // Closing waits for the peer twice: for the end of a frame that it began, and until it closes the
  // socket.
  const timers = new Set<NodeJS.Timeout>();
  const soon = (end: () => void) => timers.add(setTimeout(end, limits.checkIntervalMs));
  session.on("timeout", () => {
    if (runsOn(session, running)) return;
    session.close();
    soon(() => session.destroy());
  });
  socket.once("finish", () => soon(() => socket.destroy()));
  // One listener for all of them: Node warns of eleven, and others have most of these.
  socket.once("close", () => timers.forEach(clearTimeout));
}

function runsOn(session: ServerHttp2Session, running: Iterable<NodeResponse>): boolean {
  for (const res of running) if (isHttp2Response(res) && res.stream.session === session) return true;
  return false;
}

/**
 * Returns a function that ends sessions whose caller has vanished, and with them the requests that
 * run on them. Where nothing has arrived for `silentCallerMs` while a request runs, the caller is
 * asked by a PING; if nothing has arrived `pingAnswerMsMax` later, it is gone. Any byte counts: the
 * answer to a PING may wait behind what a slow caller has not read. Call it regularly.
 */
export function createCallerCheck({
  sessions,
  unread,
  limits,
  clock,
}: {
  readonly sessions: Iterable<ServerHttp2Session>;
  readonly unread: Pick<UnreadAnswers, "of">;
  readonly limits: Pick<TransportLimits, "silentCallerMs" | "pingAnswerMsMax">;
  readonly clock: Pick<Clock, "monotonicMs">;
}): () => void {
  const silences = new WeakMap<ServerHttp2Session, Silence>();
  return () => {
    const nowMs = clock.monotonicMs();
    for (const session of sessions) {
      const connection = unread.of(session);
      if (session.destroyed || connection === undefined) continue;
      const { bytesRead } = connection.socket;
      const silence = silences.get(session);
      if (connection.requests === 0 || silence?.bytesRead !== bytesRead) {
        silences.set(session, { bytesRead, sinceMs: nowMs, isAsked: false });
        continue;
      }
      const silentMs = nowMs - silence.sinceMs;
      if (silence.isAsked && silentMs >= limits.silentCallerMs + limits.pingAnswerMsMax) session.destroy();
      else if (!silence.isAsked && silentMs >= limits.silentCallerMs) {
        silence.isAsked = true;
        session.ping(() => {});
      }
    }
  };
}

/** The silence of a caller, since the last byte that arrived. */
interface Silence {
  readonly bytesRead: number;
  readonly sinceMs: number;
  isAsked: boolean;
}

interface StreamCheckOptions {
  /** The answers that are not finished, over HTTP/1.1 and HTTP/2. */
  readonly running: Iterable<NodeResponse>;
  readonly limits: TransportLimits;
  /**
   * Whether the request is a conversation: its messages are answered one by one, while the caller
   * continues to send.
   */
  readonly isConversation: (req: NodeRequest) => boolean;
}

/**
 * Returns a function that ends the HTTP/2 streams whose caller sends its request too slowly or does
 * not read the answer. Call it every `checkIntervalMs`. Node's HTTP/1.1 server has such limits. Its
 * HTTP/2 server has none that work: the timeout of a stream fires after twice its time, and never
 * after `close` was called. A regular check of all streams also costs nothing for a request that is
 * answered before it.
 */
export function createStreamCheck({ running, limits, isConversation }: StreamCheckOptions): () => void {
  const seen = new WeakMap<ServerHttp2Stream, Seen>();
  return () => {
    for (const res of running) {
      if (!isHttp2Response(res) || res.stream.destroyed) continue;
      const { stream } = res;
      const before = seen.get(stream);
      const now = before ?? firstLook(stream);
      if (hasReadLately(res)) now.drained = true;
      if (before === undefined) seen.set(stream, now);
      else lookAgain(stream, now, limits.checkIntervalMs);
      const uploadMsMax = isConversing(res, isConversation) ? limits.conversationMsMax : limits.requestMsMax;
      if (now.uploadMs > uploadMsMax || now.stalledMs > stalledMsMax(stream, limits)) end(stream);
    }
  };
}

/** The observations of a stream since its first check. */
interface Seen {
  /** How long the caller has been sending its request; 0 once the request is complete. */
  uploadMs: number;
  /** How long bytes have waited for the caller without a moment in which none waited. */
  stalledMs: number;
  /** Whether the caller has read all waiting bytes since the last check. More may wait now. */
  drained: boolean;
}

function firstLook(stream: ServerHttp2Stream): Seen {
  const seen = { uploadMs: 0, stalledMs: 0, drained: false };
  stream.on("drain", () => {
    seen.drained = true;
  });
  return seen;
}

function lookAgain(stream: ServerHttp2Stream, seen: Seen, intervalMs: number): void {
  const waits = stream.writableLength > 0 || (stream.writableEnded && !stream.writableFinished);
  seen.stalledMs = waits && !seen.drained ? seen.stalledMs + intervalMs : 0;
  seen.uploadMs = stream.state.remoteClose === 1 ? 0 : seen.uploadMs + intervalMs;
  seen.drained = false;
}

/**
 * Node reports a large write only when all of it is read, so it gets the time that a slow caller
 * needs for its size.
 */
function stalledMsMax({ writableLength }: ServerHttp2Stream, limits: TransportLimits): number {
  return limits.stalledWriteMsMax + (1_000 * writableLength) / limits.writeBytesPerSecondMin;
}

/**
 * A request is a conversation until its answer has ended. What the caller sends after that is an
 * ordinary body.
 */
function isConversing(
  res: Http2ServerResponse,
  isConversation: StreamCheckOptions["isConversation"],
): boolean {
  return !res.stream.writableEnded && isConversation(res.req);
}

/** Resets the stream, and destroys it even if the reset can't be written. */
function end(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_CANCEL);
  stream.destroy();
}
