import { createServer, type Server, type ServerOptions } from "node:http";
import { createServer as createTlsServer, type ServerOptions as TlsServerOptions } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "../../clock.ts";
import type { Outcomes } from "../../http/outcomes.ts";
import type { Entry } from "../../metrics.ts";
import { isHttp2Response, type NodeResponse, noteParserRefusal } from "../node-http.ts";
import { errorCode, type Report } from "../transport-event.ts";
import type { TransportLimits } from "../transport-limits.ts";
import { refusalBytes, refusalOfParserError } from "./parser-refusal.ts";

/** Certificates and the key, in PEM. */
export interface ListenerTls {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
  /**
   * The certificate authorities of clients that may connect. Undefined: a client needs no
   * certificate.
   */
  readonly clientCa: string | Buffer | undefined;
}

export interface Http1ServerOptions {
  readonly limits: TransportLimits;
  readonly tls: ListenerTls | undefined;
  /** The answers that are not finished, over HTTP/1.1 and HTTP/2. */
  readonly running: Iterable<NodeResponse>;
  readonly clock: Clock;
  newRequestId(): string;
  readonly report: Report;
  readonly outcomes: Outcomes;
  /** The entry for refusals of bytes that never became a request. */
  readonly entry: Entry;
}

/**
 * Creates an HTTP/1.1 server, over TLS if `tls` is given. It ends requests and connections that
 * exceed its time limits, and answers what the parser refuses in the usual form of refusals.
 */
export function createHttp1Server(options: Http1ServerOptions): Server {
  const { limits, tls } = options;
  const server =
    tls === undefined
      ? createServer(http1Options(limits))
      : createTlsServer({ ...http1Options(limits), ...tlsOptions(tls, limits) });
  // Node drops the headers past its bound silently. Its bound is one more than ours, so that we see
  // when there are too many.
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
    // By default Node silently keeps the first of two equal headers. Joined, two hosts or two types
    // make a value that is refused.
    joinDuplicateHeaders: true,
    // `refusalOfHead` checks the host instead, because its answer has a body.
    requireHostHeader: false,
    noDelay: true,
  };
}

function tlsOptions({ cert, key, clientCa }: ListenerTls, limits: TransportLimits): TlsServerOptions {
  return {
    cert,
    key,
    ca: clientCa,
    requestCert: clientCa !== undefined,
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
    ALPNProtocols: ["h2", "http/1.1"],
    handshakeTimeout: limits.tlsHandshakeMsMax,
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

function refuseRequest(code: string, socket: Duplex, options: Http1ServerOptions): void {
  const address = "remoteAddress" in socket ? String(socket.remoteAddress) : "";
  const refusal = refusalOfParserError(code);
  // Once an answer has begun, the caller would read more bytes as a part of it.
  const answerable = socket.writable && answerOn(socket, options.running)?.headersSent !== true;
  if (refusal === undefined || !answerable) {
    options.report({ kind: "connection_failed", code, address });
    return void socket.destroy();
  }
  const requestId = options.newRequestId();
  const unfinished = requestBeingRead(socket, options.running);
  if (unfinished !== undefined) noteParserRefusal(unfinished);
  options.outcomes.refused(refusal, options.entry, { requestId, method: code, target: "", address });
  socket.end(refusalBytes(refusal, { requestId, unixMs: options.clock.unixMs() }), () => socket.destroy());
}

/**
 * Returns the answer that the connection is waiting for. A search is fast enough, because it is
 * needed only after a fault or a timeout.
 */
function answerOn(socket: Duplex, running: Iterable<NodeResponse>): NodeResponse | undefined {
  for (const res of running) if (!isHttp2Response(res) && res.socket === socket) return res;
  return undefined;
}

/** Returns the answer to the request whose body the connection's parser is reading. */
function requestBeingRead(socket: Duplex, running: Iterable<NodeResponse>): NodeResponse | undefined {
  for (const res of running) {
    if (!isHttp2Response(res) && res.req.socket === socket && !res.req.complete) return res;
  }
  return undefined;
}
