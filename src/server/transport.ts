/** The limits of every connection, and the events that are reported of one. */

import { bounds } from "../bounds.ts";

/**
 * The limits of one connection, passed in full to `node:http` and `node:http2`, because several of
 * their defaults are "no limit". A test may shorten the times; the product uses these.
 */
export interface TransportLimits {
  /**
   * How long the headers of a request may take to arrive whole, counted from the connection or its
   * last answer.
   */
  readonly headersMsMax: number;
  /**
   * The same for the whole request with its body over HTTP/1.1, and for the body alone over HTTP/2.
   */
  readonly requestMsMax: number;
  /**
   * The same for a stream of messages that are answered one by one, for example reflection, until
   * its caller has ended it.
   */
  readonly conversationMsMax: number;
  /** How often connections and streams are checked against these limits. */
  readonly checkIntervalMs: number;
  /** Headers of one request, in bytes and in number. */
  readonly headerBytesMax: number;
  readonly headersMax: number;
  readonly requestsPerConnectionMax: number;
  /**
   * How long an idle connection stays open: by default longer than the longest `Retry-After`. It
   * should be longer than a balancer keeps its own.
   */
  readonly keepAliveMs: number;
  /**
   * How long the server waits after the announced time, so that no client sends a request on a
   * connection that is being closed.
   */
  readonly keepAliveGraceMs: number;
  /** How long the bytes that show whether it is HTTP/2 or HTTP/1.1 may take. */
  readonly peekMsMax: number;
  readonly tlsHandshakeMsMax: number;
  /** After so much silence the system asks a caller whether it is still there (TCP keep-alive). */
  readonly silentCallerMs: number;
  /** How long an answer may wait for a caller that does not read it. */
  readonly stalledWriteMsMax: number;
  /**
   * The time that the waiting bytes take at this rate is added, because only the end of a whole
   * write is seen.
   */
  readonly writeBytesPerSecondMin: number;
  /** Requests of one connection at once: streams over HTTP/2, pipelined over HTTP/1.1. */
  readonly concurrentStreamsMax: number;
  /** Requests that wait to be answered together. */
  readonly batchedRequestsMax: number;
  /** Bytes of answers that wait for their callers, of all connections of the process. */
  readonly unreadBytesMax: number;
  /** The same for one connection: past it, a new request is refused. */
  readonly unreadBytesPerConnectionMax: number;
  /** Up to so many bytes, a connection may use the last quarter of `unreadBytesMax`. */
  readonly littleUnreadBytesMax: number;
  /** What Node keeps for an answer that waits, without its body. */
  readonly unreadAnswerBytes: number;
  /** CVE-2023-44487: how many resets a session may send at once, and how many more each second. */
  readonly streamResetBurst: number;
  readonly streamResetsPerSecond: number;
  readonly sessionMemoryMegabytesMax: number;
  readonly invalidFramesMax: number;
  readonly rejectedStreamsMax: number;
  readonly outstandingPingsMax: number;
  readonly settingsMax: number;
  /** How much of a body is collected before it is read, and between two reads. */
  readonly waitingBodyBytesMax: number;
  /**
   * How much of a body is read and dropped if it was answered before it was read. After that the
   * connection closes.
   */
  readonly drainedBodyBytesMax: number;
  readonly drainedBodyChunksMax: number;
  readonly drainedBodyMsMax: number;
  /** The same until a body begins to arrive for which no `100 Continue` was sent. */
  readonly unaskedBodyMsMax: number;
  /**
   * During a drain, how long an idle connection stays open for a request that may be on its way.
   */
  readonly idleCloseDelayMs: number;
}

export const transportLimits: TransportLimits = Object.freeze({
  headersMsMax: 10_000,
  requestMsMax: 30_000,
  conversationMsMax: 60_000,
  checkIntervalMs: 1_000,
  headerBytesMax: 16 * 1024,
  headersMax: 64,
  requestsPerConnectionMax: 10_000,
  keepAliveMs: 65_000,
  keepAliveGraceMs: 1_000,
  peekMsMax: 10_000,
  tlsHandshakeMsMax: 10_000,
  silentCallerMs: 60_000,
  stalledWriteMsMax: 30_000,
  writeBytesPerSecondMin: 16 * 1024,
  concurrentStreamsMax: 128,
  batchedRequestsMax: 512,
  unreadBytesMax: bounds.unreadBytesMax,
  unreadBytesPerConnectionMax: bounds.unreadBytesPerConnectionMax,
  littleUnreadBytesMax: bounds.littleUnreadBytesMax,
  unreadAnswerBytes: 16 * 1024,
  streamResetBurst: 100,
  streamResetsPerSecond: 10,
  sessionMemoryMegabytesMax: 10,
  invalidFramesMax: 50,
  rejectedStreamsMax: 100,
  outstandingPingsMax: 10,
  settingsMax: 32,
  waitingBodyBytesMax: 256 * 1024,
  drainedBodyBytesMax: bounds.drainedBodyBytesMax,
  drainedBodyChunksMax: bounds.drainedBodyChunksMax,
  drainedBodyMsMax: bounds.drainedBodyMsMax,
  unaskedBodyMsMax: bounds.unaskedBodyMsMax,
  idleCloseDelayMs: 250,
});

/**
 * An event on a connection that belongs to no request, for the log. It never has bytes of the
 * caller: a parser's error carries them, and with them perhaps an API key.
 */
export type TransportEvent =
  | { readonly kind: "connection_refused"; readonly by: "total" | "address"; readonly address: string }
  /**
   * A connection ended before its request could be answered: a reset, a failed TLS handshake.
   * `code` is Node's error code.
   */
  | { readonly kind: "connection_failed"; readonly code: string; readonly address: string }
  | { readonly kind: "session_failed"; readonly code: string }
  /** A connection was closed because its caller pipelined too many requests. */
  | { readonly kind: "connection_closed"; readonly by: "pipelined_requests"; readonly address: string }
  /**
   * Reported once: `X-Forwarded-For` arrives although no proxy is trusted, so all callers share one
   * address.
   */
  | { readonly kind: "untrusted_forwarded_for" }
  /**
   * Reported once: a trusted entry of `X-Forwarded-For` is no IP address, so its callers have the
   * address of the proxy.
   */
  | { readonly kind: "unread_forwarded_for" }
  /** The listening socket itself failed. */
  | { readonly kind: "listener_failed"; readonly cause: unknown };

/** Reports an event. Synchronous. Never throws. */
export type Report = (event: TransportEvent) => void;

/** Returns the stable code of Node's error, without its message or its bytes. */
export function errorCode(error: unknown): string {
  const named = error instanceof Error && "code" in error && typeof error.code === "string";
  return named ? String(error.code) : "UNKNOWN";
}
