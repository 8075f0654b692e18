import { bounds } from "../config.ts";

/**
 * What one connection may take, passed in full to `node:http` and `node:http2` because several of their defaults
 * are "no limit". A test may shorten the times; the product runs with these.
 */
export interface TransportLimits {
  /** How long after the connection, or its last answer, a request's headers may take to arrive whole. */
  readonly headersMsMax: number;
  /** The same for the whole request with its body, over HTTP/1.1; over HTTP/2 for the body alone. */
  readonly requestMsMax: number;
  /** The same for a stream of messages that are answered one by one, as reflection's: until its caller is done. */
  readonly conversationMsMax: number;
  /** How often connections and streams are checked against these. */
  readonly checkIntervalMs: number;
  /** Headers of one request, in bytes and in number. */
  readonly headerBytesMax: number;
  readonly headersMax: number;
  readonly requestsPerConnectionMax: number;
  /** How long an idle connection lives: longer than the longest `Retry-After`, and than a balancer keeps its own. */
  readonly keepAliveMs: number;
  /** What the server waits beyond what it announces, so that a client never meets the closing. */
  readonly keepAliveGraceMs: number;
  /** How long the bytes that tell HTTP/2 from HTTP/1.1 may take. */
  readonly peekMsMax: number;
  readonly tlsHandshakeMsMax: number;
  /** How long an answer may wait for a caller that does not take it. */
  readonly stalledWriteMsMax: number;
  /** What is added to that over HTTP/2, where only all that waits is seen to be taken: its time at this rate. */
  readonly writeBytesPerSecondMin: number;
  readonly concurrentStreamsMax: number;
  /** CVE-2023-44487: resets that a session may send at once, and how many it earns back a second. */
  readonly streamResetBurst: number;
  readonly streamResetsPerSecond: number;
  readonly sessionMemoryMegabytesMax: number;
  readonly invalidFramesMax: number;
  readonly rejectedStreamsMax: number;
  readonly outstandingPingsMax: number;
  readonly settingsMax: number;
  /** What is read and dropped of a body that was answered before it was read; then the connection closes. */
  readonly drainedBodyBytesMax: number;
  readonly drainedBodyMsMax: number;
  /** While draining, how long an idle connection stays open for the request that may be on its way to it. */
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
  stalledWriteMsMax: 30_000,
  writeBytesPerSecondMin: 16 * 1024,
  concurrentStreamsMax: 128,
  streamResetBurst: 100,
  streamResetsPerSecond: 10,
  sessionMemoryMegabytesMax: 10,
  invalidFramesMax: 50,
  rejectedStreamsMax: 100,
  outstandingPingsMax: 10,
  settingsMax: 32,
  drainedBodyBytesMax: bounds.drainedBodyBytesMax,
  drainedBodyMsMax: bounds.drainedBodyMsMax,
  idleCloseDelayMs: 250,
});
