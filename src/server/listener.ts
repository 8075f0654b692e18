import { Server, type Socket } from "node:net";
import type { Clock } from "../clock.ts";
import { type ConnectionsOptions, createConnections } from "./connections.ts";
import type { Drainable } from "./drain.ts";
import { createHttp1Server, type MutualTls } from "./http1-server.ts";
import { createHttp2Door } from "./http2-server.ts";
import type { NodeRequest } from "./node-http.ts";
import { createRunningAnswers, type RunningAnswersOptions } from "./running-answers.ts";
import { splitByAlpn, splitByPreface } from "./split-protocols.ts";
import { createStreamCheck } from "./stream-check.ts";
import type { Report } from "./transport-event.ts";
import { type TransportLimits, transportLimits } from "./transport-limits.ts";

export interface ListenerOptions extends RunningAnswersOptions, ConnectionsOptions {
  readonly connectionsMax: number;
  readonly clock: Clock;
  /** Undefined: plaintext, HTTP/1.1 and HTTP/2 on one port by what the caller speaks. */
  readonly tls?: MutualTls | undefined;
  readonly limits?: TransportLimits;
  /** Whether the request's messages are answered one by one, while the caller sends on; where not given, none is. */
  readonly isConversation?: (req: NodeRequest) => boolean;
}

export interface BoundAddress {
  readonly host: string;
  readonly port: number;
}

export interface Listener extends Drainable {
  /** Resolves with the bound address: port 0 picks a free one. Rejects with node's error where it can't be bound. */
  listen(at: BoundAddress): Promise<BoundAddress>;
  /** Connections that are open now. */
  connections(): number;
}

/**
 * One port for HTTP/1.1 and HTTP/2, with every limit of `transportLimits`. The HTTP/1.1 server itself listens, because
 * behind any other server its timeouts do nothing; each connection is looked at before it is given to a protocol.
 */
export function createListener(options: ListenerOptions): Listener {
  const limits = options.limits ?? transportLimits;
  const { report, tls } = options;
  const answers = createRunningAnswers(options, limits);
  const connections = createConnections(options);
  const http1 = createHttp1Server({ ...options, limits, tls, running: answers.all });
  const http2 = createHttp2Door({ limits, report, running: answers.all });
  for (const server of [http1, http2.server]) {
    // An expectation that nobody knows may be ignored (RFC 9110, section 10.1.1).
    for (const event of ["request", "checkContinue", "checkExpectation"]) server.on(event, answers.take);
  }
  const undecided = new Set<Socket>();
  const speakingHttp1 = new Set<Socket>();
  const { peekMsMax } = limits;
  const split = { connections, undecided, speakingHttp1, peekMsMax, acceptHttp2: http2.accept };
  if (tls === undefined) splitByPreface(http1, split);
  else splitByAlpn(http1, split);
  http1.maxConnections = options.connectionsMax;
  http1.on("drop", (dropped) => {
    report({ kind: "connection_refused", by: "total", address: dropped?.remoteAddress ?? "" });
  });
  const closed = new Promise<void>((resolve) => http1.once("close", resolve));
  // Frees the timer that looks for slow requests, which http.Server's own close alone does.
  http1.once("close", () => http1.close());
  const { isConversation = () => false } = options;
  const checkStreams = createStreamCheck({ running: answers.all, limits, isConversation });
  const checking = setInterval(checkStreams, limits.checkIntervalMs).unref();
  http1.once("close", () => clearInterval(checking));
  let stopping: NodeJS.Timeout | undefined;

  const stopAccepting = () => {
    if (stopping !== undefined) return;
    // Not http.Server's own close: it takes idle connections away at once, and with them requests on their way.
    Server.prototype.close.call(http1);
    answers.closeConnections();
    http2.closeSessions();
    const idle = silentSince(speakingHttp1);
    stopping = setTimeout(() => {
      for (const socket of undecided) socket.destroy();
      const busy = answers.busySockets();
      for (const socket of idle()) if (!busy.has(socket)) socket.destroy();
      http2.closeSessions();
    }, limits.idleCloseDelayMs);
  };
  return {
    listen: (at) => listen(http1, at, report),
    connections: () => connections.all.size,
    stopAccepting,
    drained: () => closed,
    destroy() {
      stopAccepting();
      clearTimeout(stopping);
      for (const socket of connections.all) socket.destroy();
    },
  };
}

/**
 * Those of the sockets that have sent nothing between the two calls. Node's `closeIdleConnections` would also cut off
 * an answer that is written and not yet taken.
 */
function silentSince(sockets: Iterable<Socket>): () => Socket[] {
  const before = Array.from(sockets, (socket) => ({ socket, bytesRead: socket.bytesRead }));
  return () => before.filter((one) => one.socket.bytesRead === one.bytesRead).map(({ socket }) => socket);
}

function listen(server: Server, { host, port }: BoundAddress, report: Report): Promise<BoundAddress> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port }, () => {
      server.off("error", reject);
      server.on("error", (cause) => report({ kind: "listener_failed", cause }));
      const bound = server.address();
      if (bound === null || typeof bound === "string") reject(new Error("The listener has no port."));
      else resolve({ host: bound.address, port: bound.port });
    });
  });
}
