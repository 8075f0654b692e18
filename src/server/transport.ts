/** What holds for every connection: its limits, and the events that are reported of it. */

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
  /**
   * Bytes that the connections of a listener may take while they are idle. Past them the idlest are
   * closed.
   */
  readonly idleBytesMax: number;
  /**
   * What a connection takes without a request, nearly all of it in Node. A session of HTTP/2
   * takes 22 KB, and as much can't be used again when it has taken the place of others.
   */
  readonly idleBytes: { readonly http1: number; readonly http2: number };
  /** How long the bytes that show whether it is HTTP/2 or HTTP/1.1 may take. */
  readonly peekMsMax: number;
  readonly tlsHandshakeMsMax: number;
  /**
   * After so much silence a caller is asked whether it is still there: by the system (TCP
   * keep-alive), and over HTTP/2 by a PING while a request of it runs.
   */
  readonly silentCallerMs: number;
  /** How long a caller may take to say anything after a PING. Without a word it has vanished. */
  readonly pingAnswerMsMax: number;
  /** How long an answer may wait for a caller that does not read it. */
  readonly stalledWriteMsMax: number;
  /**
   * Over HTTP/2 the time that the waiting bytes take at this rate is added, because only the end of
   * a whole write is seen.
   */
  readonly writeBytesPerSecondMin: number;
  /** Requests of one connection at once: streams over HTTP/2, pipelined over HTTP/1.1. */
  readonly concurrentStreamsMax: number;
  /** Connections that begin in one turn of the event loop. The others wait for the next. */
  readonly connectionStartsPerTurnMax: number;
  /** Up to so many first bytes, a connection begins before those that bring more. */
  readonly fewFirstBytesMax: number;
  /** For how many turns the others wait while new connections arrive: Node's queue has 511. */
  readonly heldStartTurnsMax: number;
  /** Requests that wait for the end of their turn of the event loop. */
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
  idleBytesMax: bounds.idleConnectionBytesMax,
  idleBytes: { http1: 13 * 1024, http2: 48 * 1024 },
  peekMsMax: 10_000,
  tlsHandshakeMsMax: 10_000,
  silentCallerMs: 60_000,
  pingAnswerMsMax: 60_000,
  stalledWriteMsMax: 30_000,
  writeBytesPerSecondMin: 16 * 1024,
  concurrentStreamsMax: 128,
  connectionStartsPerTurnMax: 4,
  fewFirstBytesMax: 1_024,
  heldStartTurnsMax: 512,
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
 * An event on a connection that belongs to no request, for the log. It never holds bytes of the
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
  /**
   * A connection was closed because its caller did not read its answers, or pipelined too many
   * requests. `bytes` is what it had not read.
   */
  | {
      readonly kind: "connection_closed";
      readonly by: "unread_answers" | "pipelined_requests";
      readonly bytes: number;
      readonly address: string;
    }
  /** An idle connection was closed because all connections together took too much memory. */
  | { readonly kind: "idle_connection_closed"; readonly address: string }
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
