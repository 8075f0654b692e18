/** Node's HTTP/2 server with every limit set, for sockets that another server has accepted. */

import { createServer, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { errorCode, type Report, type TransportLimits } from "../transport.ts";
import type { UnreadAnswers, UnreadConnection } from "../unread-answers.ts";

export interface Http2ServerOptions {
  readonly limits: TransportLimits;
  readonly unread: UnreadAnswers;
  /** See `ListenerOptions`. */
  readonly unprovenStreamsMax: number | undefined;
  readonly report: Report;
}

/** Serves HTTP/2 on sockets that another server accepted. */
export function createHttp2Acceptor({ limits, unread, unprovenStreamsMax, report }: Http2ServerOptions) {
  const server = createServer(http2Options(limits));
  const sessions = new Set<ServerHttp2Session>();
  const shareStreams = createStreamShares(limits, unprovenStreamsMax);
  server.on("sessionError", (error) => report({ kind: "session_failed", code: errorCode(error) }));
  return {
    /** Emits `request` and `checkContinue`, as `node:http` does. */
    server,
    /** Takes over a socket whose next bytes are HTTP/2's preface. */
    accept(socket: Socket): void {
      // A session whose peer has closed its end would stay open for ever while one of its streams
      // is answered.
      socket.allowHalfOpen = false;
      server.once("session", (session) => {
        sessions.add(session);
        socket.once("close", () => sessions.delete(session));
        const counts = unread.of(session);
        shareStreams(session, counts);
        limitIdleTime(session, { socket, counts, limits });
      });
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
 * Everything that arrives on a session at once is parsed in one turn of the event loop, and Node
 * has no option to read less of it: 200 sessions of 128 streams each stopped the process for 4 s,
 * and took 1 GB. So the sessions on which no key was right yet share a number of streams. The more
 * of them there are, the fewer the next one gets, as its SETTINGS say. It gets all of them with its
 * first right key. Node refuses the streams past that unprocessed.
 */
function createStreamShares(
  { concurrentStreamsMax }: TransportLimits,
  unprovenStreamsMax = Number.POSITIVE_INFINITY,
): (session: ServerHttp2Session, counts: UnreadConnection) => void {
  let unproven = 0;
  return (session, counts) => {
    unproven += 1;
    const share = Math.max(1, Math.floor(unprovenStreamsMax / unproven));
    const isLess = share < concurrentStreamsMax;
    if (isLess) session.settings({ maxConcurrentStreams: share });
    counts.onRightKey = () => {
      unproven -= 1;
      if (isLess && !session.destroyed) session.settings({ maxConcurrentStreams: concurrentStreamsMax });
    };
    session.once("close", () => {
      if (counts.onRightKey !== undefined) unproven -= 1;
      counts.onRightKey = undefined;
    });
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
  { socket, counts, limits }: { socket: Socket; counts: UnreadConnection; limits: TransportLimits },
): void {
  // A closed session waits until its peer has ended a frame that it began, and has closed the
  // socket.
  const destroySoon = () => void setTimeout(() => socket.destroy(), limits.checkIntervalMs).unref();
  session.setTimeout(limits.headersMsMax);
  session.once("remoteSettings", () => session.setTimeout(limits.keepAliveMs));
  session.on("timeout", () => {
    if (counts.requests > 0) return;
    session.close();
    destroySoon();
  });
  socket.once("finish", destroySoon);
}
