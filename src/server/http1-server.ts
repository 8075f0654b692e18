import { createServer, type Server, type ServerOptions } from "node:http";
import { createServer as createTlsServer, type ServerOptions as TlsServerOptions } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "../clock.ts";
import { isHttp2Response, type NodeResponse } from "./node-http.ts";
import { refusalBytes, refusalOfParserError } from "./parser-refusal.ts";
import { errorCode, type Report } from "./transport-event.ts";
import type { TransportLimits } from "./transport-limits.ts";

/** Mutual TLS, in PEM: the server's certificate, and the authorities of the clients that may connect. */
export interface MutualTls {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
  readonly clientCa: string | Buffer;
}

export interface Http1ServerOptions {
  readonly limits: TransportLimits;
  readonly tls: MutualTls | undefined;
  /** The answers that are not done, by whichever protocol. */
  readonly running: Iterable<NodeResponse>;
  readonly clock: Clock;
  newRequestId(): string;
  readonly report: Report;
}

/**
 * An HTTP/1.1 server, over TLS where `tls` is given, that ends what takes longer than its limits, and answers what
 * the parser refuses in the one shape of all refusals.
 */
export function createHttp1Server(options: Http1ServerOptions): Server {
  const { limits, tls } = options;
  const server =
    tls === undefined
      ? createServer(http1Options(limits))
      : createTlsServer({ ...http1Options(limits), ...tlsOptions(tls, limits) });
  // Node drops the headers past its bound without a word, so its bound is one more than ours.
  server.maxHeadersCount = limits.headersMax + 1;
  server.maxRequestsPerSocket = limits.requestsPerConnectionMax;
  server.timeout = limits.stalledWriteMsMax;
  server.on("timeout", (socket) => endIfStalled(socket, options.running));
  server.on("clientError", (error, socket) => refuseRequest(errorCode(error), socket, options));
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
    // Node keeps the first of two without a word; joined, two hosts or two types are none that anybody knows.
    joinDuplicateHeaders: true,
    // Checked by `refusalOfHead`, whose answer has a body.
    requireHostHeader: false,
    noDelay: true,
  };
}

function tlsOptions({ cert, key, clientCa }: MutualTls, limits: TransportLimits): TlsServerOptions {
  return {
    cert,
    key,
    ca: clientCa,
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
    ALPNProtocols: ["h2", "http/1.1"],
    handshakeTimeout: limits.tlsHandshakeMsMax,
  };
}

/**
 * Nothing moved on the connection for a while. That is right where an answer is still being worked out; it ends where
 * the connection is idle, or the caller does not take what was written for it.
 */
function endIfStalled(socket: Socket, running: Iterable<NodeResponse>): void {
  if (socket.writableLength > 0 || !answerOn(socket, running)) socket.destroy();
}

function refuseRequest(code: string, socket: Duplex, options: Http1ServerOptions): void {
  const address = "remoteAddress" in socket ? String(socket.remoteAddress) : "";
  const refusal = refusalOfParserError(code);
  // Once an answer has begun, more bytes would be read as a part of it.
  const answerable = socket.writable && answerOn(socket, options.running)?.headersSent !== true;
  const reason = refusal && answerable ? { reason: refusal.reason } : {};
  options.report({ kind: "request_refused", code, address, ...reason });
  if (refusal === undefined || !answerable) return void socket.destroy();
  const requestId = options.newRequestId();
  socket.end(refusalBytes(refusal, { requestId, unixMs: options.clock.unixMs() }), () => socket.destroy());
}

/** The answer that the connection is waiting for. A search, because only what went wrong asks for it. */
function answerOn(socket: Duplex, running: Iterable<NodeResponse>): NodeResponse | undefined {
  for (const res of running) if (!isHttp2Response(res) && res.socket === socket) return res;
  return undefined;
}
