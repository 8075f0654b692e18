import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { isHttp2Response, type NodeResponse } from "./node-http.ts";
import { errorCode, type Report } from "./transport-event.ts";
import type { TransportLimits } from "./transport-limits.ts";

export interface Http2ServerOptions {
  readonly limits: TransportLimits;
  /** The answers that are not done, by whichever protocol. */
  readonly running: Iterable<NodeResponse>;
  readonly report: Report;
}

/** HTTP/2 on sockets that another server accepted. */
export interface Http2Door {
  /** Emits `request` and `checkContinue`, as `node:http` does. */
  readonly server: Http2Server;
  /** Takes over the socket, whose next bytes are HTTP/2's preface. */
  accept(socket: Socket): void;
  /**
   * Closes every session of now: its running requests end, and each that crosses the GOAWAY is refused unread, which
   * tells its client that it may send it again (RFC 9113, section 8.7).
   */
  closeSessions(): void;
}

export function createHttp2Door({ limits, running, report }: Http2ServerOptions): Http2Door {
  const server = createServer(http2Options(limits));
  const sessions = new Set<ServerHttp2Session>();
  server.on("sessionError", (error) => report({ kind: "session_failed", code: errorCode(error) }));
  return {
    server,
    accept(socket) {
      if (socket.destroyed) return;
      server.once("session", (session) => {
        sessions.add(session);
        socket.once("close", () => sessions.delete(session));
        limitIdleTime(session, { socket, limits, running });
      });
      server.emit("connection", socket);
    },
    closeSessions() {
      for (const session of sessions) session.close();
    },
  };
}

function http2Options(limits: TransportLimits) {
  return {
    maxSessionMemory: limits.sessionMemoryMegabytesMax,
    maxHeaderListPairs: limits.headersMax,
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
 * Closes a session that does not finish its handshake, and later one on which nothing runs and nothing moves. Half a
 * frame is no movement, so headers that never end are closed by this too.
 */
function limitIdleTime(
  session: ServerHttp2Session,
  { socket, limits, running }: { socket: Socket; limits: TransportLimits; running: Iterable<NodeResponse> },
): void {
  session.setTimeout(limits.headersMsMax);
  session.once("remoteSettings", () => session.setTimeout(limits.keepAliveMs));
  // Closing waits for the peer's part, twice: for the end of a frame that it began, and for it to close the socket.
  const soon = (end: () => void) => {
    const timer = setTimeout(end, limits.checkIntervalMs);
    socket.once("close", () => clearTimeout(timer));
  };
  session.on("timeout", () => {
    if (runsOn(session, running)) return;
    session.close();
    soon(() => session.destroy());
  });
  socket.once("finish", () => soon(() => socket.destroy()));
}

function runsOn(session: ServerHttp2Session, running: Iterable<NodeResponse>): boolean {
  for (const res of running) if (isHttp2Response(res) && res.stream.session === session) return true;
  return false;
}
