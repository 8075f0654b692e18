/**
 * The server in front of those for HTTP/1.1 and HTTP/2. It accepts every connection of a listener,
 * and hands it to the server of the protocol that it speaks. Over TLS the protocol is agreed with
 * ALPN; otherwise the first bytes show it.
 */

import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions, Server as TlsServer } from "node:tls";
import { errorCode, type Report, type TransportLimits } from "../transport.ts";
import { keepWhileOpen } from "./connections.ts";

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

export interface FrontServerOptions {
  readonly tls: ListenerTls | undefined;
  readonly limits: TransportLimits;
  readonly report: Report;
  readonly connectionsMax: number;
  /** Returns whether the connection may stay. */
  admit(socket: Socket): boolean;
  /** Takes over a socket that speaks HTTP/1.1. */
  acceptHttp1(socket: Socket): void;
  /** Takes over a socket whose next bytes are HTTP/2's preface. */
  acceptHttp2(socket: Socket): void;
}

export interface FrontServer {
  readonly server: Server;
  /** The open connections whose protocol is not known yet. */
  readonly undecided: ReadonlySet<Socket>;
}

export function createFrontServer(options: FrontServerOptions): FrontServer {
  const undecided = new Set<Socket>();
  const server =
    options.tls === undefined ? plainServer(options, undecided) : tlsServer(options.tls, options);
  server.maxConnections = options.connectionsMax;
  server.on("drop", (dropped) => {
    options.report({ kind: "connection_refused", by: "total", address: dropped?.remoteAddress ?? "" });
  });
  return { server, undecided };
}

/** Gives new connections of the server, which is one of TLS, these certificates. */
export function setTls(server: Server, tls: ListenerTls, limits: TransportLimits): void {
  if (!(server instanceof TlsServer)) throw new Error("the listener has no TLS");
  server.setSecureContext(tlsOptions(tls, limits));
}

function plainServer(options: FrontServerOptions, undecided: Set<Socket>): Server {
  const { admit, acceptHttp1, acceptHttp2, limits } = options;
  // Over HTTP/1.1, a caller that has closed its end can still read a refusal.
  return createServer({ ...socketOptions(limits), allowHalfOpen: true }, (socket) => {
    if (!admit(socket)) return;
    keepWhileOpen(undecided, socket);
    peekProtocol(socket, limits.peekMsMax, (protocol) => {
      undecided.delete(socket);
      if (protocol === "http2") acceptHttp2(socket);
      else acceptHttp1(socket);
    });
  });
}

function tlsServer(tls: ListenerTls, options: FrontServerOptions): Server {
  const { admit, acceptHttp1, acceptHttp2, limits, report } = options;
  const server = createTlsServer({ ...socketOptions(limits), ...tlsOptions(tls, limits) }, (socket) => {
    socket.on("error", () => undefined);
    // A client that offers no protocol speaks HTTP/1.1.
    if (socket.alpnProtocol === "h2") acceptHttp2(socket);
    else acceptHttp1(socket);
  });
  server.on("connection", admit);
  server.on("tlsClientError", (error, socket) => {
    report({ kind: "connection_failed", code: errorCode(error), address: socket.remoteAddress ?? "" });
    socket.destroy();
  });
  return server;
}

function socketOptions(limits: TransportLimits) {
  return {
    noDelay: true,
    // It finds a caller that is gone without a word, with its machine or its network.
    keepAlive: true,
    keepAliveInitialDelay: limits.silentCallerMs,
  };
}

function tlsOptions({ cert, key, clientCa }: ListenerTls, limits: TransportLimits): TlsOptions {
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
 * RFC 9113, section 3.4. No HTTP/1.1 method begins with these three letters, but POST shares the
 * first.
 */
const http2Preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/**
 * Reads the first bytes of a connection and puts them back. It is HTTP/2 once its whole preface has
 * arrived, and HTTP/1.1 as soon as the bytes differ from the preface. Calls `onProtocol` once. If
 * the socket ends or `msMax` is over before that, destroys the socket instead: the time-outs of the
 * servers do not apply to it yet.
 */
function peekProtocol(
  socket: Socket,
  msMax: number,
  onProtocol: (protocol: "http1" | "http2") => void,
): void {
  let seen: Buffer = Buffer.alloc(0);
  const abandon = () => {
    stop();
    socket.destroy();
  };
  const peek = () => {
    for (let chunk: Buffer | null = socket.read(); chunk !== null; chunk = socket.read()) {
      seen = Buffer.concat([seen, chunk]);
    }
    const protocol = protocolOf(seen);
    if (protocol === undefined) return;
    stop();
    socket.unshift(seen);
    onProtocol(protocol);
  };
  const timer = setTimeout(abandon, msMax);
  const stop = () => {
    clearTimeout(timer);
    socket.off("readable", peek).off("end", abandon).off("close", stop);
  };
  socket.on("readable", peek).on("end", abandon).on("close", stop);
}

function protocolOf(seen: Buffer): "http1" | "http2" | undefined {
  const length = Math.min(seen.length, http2Preface.length);
  if (seen.compare(http2Preface, 0, length, 0, length) !== 0) return "http1";
  // Three bytes would be enough to decide. We wait for the whole preface, because an HTTP/2 session
  // has no time limit of its own for it.
  return length < http2Preface.length ? undefined : "http2";
}
