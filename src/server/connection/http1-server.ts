/** Node's HTTP/1.1 server with every limit set. */

import { createServer, type Server, type ServerOptions } from "node:http";
import {
  createServer as createTlsServer,
  Server as TlsServer,
  type ServerOptions as TlsServerOptions,
} from "node:https";
import type { Socket } from "node:net";
import type { NodeResponse } from "../node-http.ts";
import type { TransportLimits } from "../transport.ts";
import { answerOn, type ConnectionRefusalsOptions, createConnectionRefusals } from "./connection-refusals.ts";

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

export interface Http1ServerOptions extends ConnectionRefusalsOptions {
  readonly limits: TransportLimits;
  readonly tls: ListenerTls | undefined;
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
  const refusals = createConnectionRefusals(options);
  server.on("clientError", refusals.parserError);
  server.on("connect", refusals.connect);
  server.on("dropRequest", refusals.overdue);
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
    // A caller that is gone without a word, with its machine or its network, is found so. It holds
    // for HTTP/2 too: this server accepts all connections.
    keepAlive: true,
    keepAliveInitialDelay: limits.silentCallerMs,
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
    ciphers: aeadSuites.join(":"),
    ALPNProtocols: ["h2", "http/1.1"],
    handshakeTimeout: limits.tlsHandshakeMsMax,
  };
}

/** Gives new connections of the server, which is one of TLS, these certificates. */
export function setTls(server: Server, tls: ListenerTls, limits: TransportLimits): void {
  if (!(server instanceof TlsServer)) throw new Error("the listener has no TLS");
  server.setSecureContext(tlsOptions(tls, limits));
}

/** Those of TLS 1.3, and those of TLS 1.2 that RFC 9325 recommends. Node takes CBC, too. */
const aeadSuites = [
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
  "TLS_AES_128_GCM_SHA256",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
];

/**
 * Called when no byte has moved on the connection for a while. That is normal while an answer is
 * being computed. The connection is closed if it is idle, or if the caller does not read the
 * answer.
 */
function endIfStalled(socket: Socket, running: Iterable<NodeResponse>): void {
  if (socket.writableLength > 0 || !answerOn(socket, running)) socket.destroy();
}
