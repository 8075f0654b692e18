/**
 * A listener: one port for HTTP/1.1 and HTTP/2, in plaintext or over TLS. It puts together what the
 * folders `connection/` (who may connect, and which protocol it speaks) and `exchange/` (one
 * request and its answer) do.
 */

import type { Server, Socket } from "node:net";
import type { Clock } from "../base/clock.ts";
import { type HostAndPort, listenOptions } from "../settings/host.ts";
import { type ConnectionsOptions, createConnections, keepWhileOpen } from "./connection/connections.ts";
import { createFrontServer, type ListenerTls, setTls } from "./connection/front-server.ts";
import { createHttp1Server } from "./connection/http1-server.ts";
import { createHttp2Acceptor } from "./connection/http2-server.ts";
import type { Drainable } from "./drain.ts";
import { createAnswerCheck } from "./exchange/answer-check.ts";
import { createRunningAnswers, type RunningAnswersOptions } from "./exchange/running-answers.ts";
import type { NodeRequest } from "./node-http.ts";
import { type Report, type TransportLimits, transportLimits } from "./transport.ts";
import { UnreadAnswers } from "./unread-answers.ts";

export interface ListenerOptions extends RunningAnswersOptions, ConnectionsOptions {
  readonly connectionsMax: number;
  readonly clock: Clock;
  /** Undefined: plaintext, HTTP/1.1 and HTTP/2 on one port by what the caller speaks. */
  readonly tls?: ListenerTls | undefined;
  readonly limits?: TransportLimits;
  /**
   * The streams that all HTTP/2 sessions share on which no key was right yet. Undefined: no bound,
   * where the callers are internal services.
   */
  readonly unprovenStreamsMax?: number | undefined;
  /** Shared by the listeners of a process. By default the listener has its own. */
  readonly unread?: UnreadAnswers;
  /**
   * Whether the request's messages are answered one by one, while the caller sends more. By default
   * none is such a conversation.
   */
  readonly isConversation?: (req: NodeRequest) => boolean;
}

export interface Listener extends Drainable {
  /**
   * Resolves with the bound address; port 0 picks a free port. Rejects with Node's error if the
   * address can't be bound.
   */
  listen(at: HostAndPort): Promise<HostAndPort>;
  /** How many connections are open. */
  connections(): number;
  /** New connections get these certificates. Those that are open go on. Only for one with TLS. */
  setTls(tls: ListenerTls): void;
}

/** One port for HTTP/1.1 and HTTP/2, with every limit of `transportLimits`. */
export function createListener(options: ListenerOptions): Listener {
  const limits = options.limits ?? transportLimits;
  const { report, tls, isConversation = () => false, unread = new UnreadAnswers(limits) } = options;
  const answers = createRunningAnswers(options, { limits, unread });
  const connections = createConnections(options);
  const http1 = createHttp1Server({ ...options, limits, running: answers.all });
  const http1Sockets = new Set<Socket>();
  http1.on("connection", (socket) => keepWhileOpen(http1Sockets, socket));
  const http2 = createHttp2Acceptor({
    limits,
    unread,
    unprovenStreamsMax: options.unprovenStreamsMax,
    report,
  });
  for (const server of [http1, http2.server]) {
    // An unknown expectation may be ignored (RFC 9110, section 10.1.1).
    for (const event of ["request", "checkContinue", "checkExpectation"]) server.on(event, answers.take);
  }
  // `node:http` has no response for a CONNECT, so the HTTP/1.1 server refuses it itself.
  http2.server.on("connect", answers.take);
  const { server, undecided } = createFrontServer({
    tls,
    limits,
    report,
    connectionsMax: options.connectionsMax,
    admit: connections.admit,
    acceptHttp1: (socket) => void http1.emit("connection", socket),
    acceptHttp2: http2.accept,
  });
  const closed = new Promise<void>((resolve) => server.once("close", resolve));
  const check = createAnswerCheck({ running: answers.all, limits, isConversation });
  const checking = setInterval(check, limits.checkIntervalMs).unref();
  server.once("close", () => {
    clearInterval(checking);
    http1.close();
  });
  let stopping: NodeJS.Timeout | undefined;
  let isPortClosed = false;

  // The second call is for connections that were accepted after the first.
  const closeConnections = () => {
    answers.closeConnections();
    http2.closeSessions();
    const idle = silentSince(http1Sockets);
    clearTimeout(stopping);
    stopping = setTimeout(() => {
      for (const socket of undecided) socket.destroy();
      const busy = answers.busySockets();
      for (const socket of idle()) if (!busy.has(socket)) socket.destroy();
      http2.closeSessions();
    }, limits.idleCloseDelayMs);
  };
  const stopAccepting = () => {
    if (isPortClosed) return;
    isPortClosed = true;
    server.close();
    closeConnections();
  };
  return {
    listen: (at) => listen(server, at, report),
    closeConnections,
    stopAccepting,
    connections: () => connections.all.size,
    setTls: (renewed) => setTls(server, renewed, limits),
    drained: () => closed,
    destroy() {
      stopAccepting();
      clearTimeout(stopping);
      for (const socket of connections.all) socket.destroy();
    },
  };
}

/**
 * Returns a function that returns the sockets on which nothing arrived between the two calls.
 * Node's `closeIdleConnections` would also cut off an answer that is written but not yet read.
 */
function silentSince(sockets: Iterable<Socket>): () => Socket[] {
  const before = Array.from(sockets, (socket) => ({ socket, bytesRead: socket.bytesRead }));
  return () => before.filter((one) => one.socket.bytesRead === one.bytesRead).map(({ socket }) => socket);
}

function listen(server: Server, at: HostAndPort, report: Report): Promise<HostAndPort> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(listenOptions(at), () => {
      server.off("error", reject);
      server.on("error", (cause) => report({ kind: "listener_failed", cause }));
      const bound = server.address();
      if (bound === null || typeof bound === "string") reject(new Error("The listener has no port."));
      else resolve({ host: bound.address, port: bound.port });
    });
  });
}
