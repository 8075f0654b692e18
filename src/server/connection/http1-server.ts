/** Node's HTTP/1.1 server with every limit set, for sockets that another server has accepted. */

import { createServer, type Server, type ServerOptions } from "node:http";
import type { Socket } from "node:net";
import type { NodeResponse } from "../node-http.ts";
import type { TransportLimits } from "../transport.ts";
import { answerOn, type ConnectionRefusalsOptions, createConnectionRefusals } from "./connection-refusals.ts";

export interface Http1ServerOptions extends ConnectionRefusalsOptions {
  readonly limits: TransportLimits;
}

/**
 * Creates an HTTP/1.1 server. Emit `connection` with each of its sockets, and close it at the end.
 * It ends requests and connections that exceed its time limits, and answers what the parser refuses
 * in the usual form of refusals.
 */
export function createHttp1Server(options: Http1ServerOptions): Server {
  const { limits } = options;
  const server = createServer(http1Options(limits));
  // Node drops the headers past its bound silently. Its bound is one more than ours, so that we see
  // when there are too many.
  server.maxHeadersCount = limits.headersMax + 1;
  server.maxRequestsPerSocket = limits.requestsPerConnectionMax;
  server.setTimeout(limits.stalledWriteMsMax, (socket) => endIfStalled(socket, options.running));
  const refusals = createConnectionRefusals(options);
  server.on("clientError", refusals.parserError);
  server.on("connect", refusals.connect);
  server.on("dropRequest", refusals.overdue);
  // With this event Node begins to check for slow requests. Another server listens for this one.
  server.emit("listening");
  return server;
}

function http1Options(limits: TransportLimits): ServerOptions {
  return {
    headersTimeout: limits.headersMsMax,
    requestTimeout: limits.requestMsMax,
    connectionsCheckingInterval: limits.checkIntervalMs,
    maxHeaderSize: limits.headerBytesMax,
    keepAliveTimeout: limits.keepAliveMs,
    keepAliveTimeoutBuffer: limits.keepAliveGraceMs,
    insecureHTTPParser: false,
    // By default Node silently keeps the first of two equal headers. Joined, two hosts or two types
    // make a value that is refused.
    joinDuplicateHeaders: true,
    // `refusalOfHead` checks the host instead, because its answer has a body.
    requireHostHeader: false,
  };
}

/**
 * Called when no byte has moved on the connection for a while. That is normal while an answer is
 * being computed. The connection is closed if it is idle, or if the caller does not read the
 * answer.
 */
function endIfStalled(socket: Socket, running: Iterable<NodeResponse>): void {
  if (socket.writableLength > 0 || !answerOn(socket, running)) socket.destroy();
}
