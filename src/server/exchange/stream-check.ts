import { constants, type Http2ServerResponse, type ServerHttp2Stream } from "node:http2";
import { hasReadLately, isHttp2Response, type NodeRequest, type NodeResponse } from "../node-http.ts";
import type { TransportLimits } from "../transport-limits.ts";

export interface StreamCheckOptions {
  /** The answers that are not finished, over HTTP/1.1 and HTTP/2. */
  readonly running: Iterable<NodeResponse>;
  readonly limits: TransportLimits;
  /**
   * Whether the request is a conversation: its messages are answered one by one, while the caller
   * continues to send.
   */
  readonly isConversation: (req: NodeRequest) => boolean;
}

/**
 * Returns a function that ends the HTTP/2 streams whose caller sends its request too slowly or does
 * not read the answer. Call it every `checkIntervalMs`. Node's HTTP/1.1 server has such limits. Its
 * HTTP/2 server has none that work: the timeout of a stream fires after twice its time, and never
 * after `close` was called. A regular check of all streams also costs nothing for a request that is
 * answered before it.
 */
export function createStreamCheck({ running, limits, isConversation }: StreamCheckOptions): () => void {
  const seen = new WeakMap<ServerHttp2Stream, Seen>();
  return () => {
    for (const res of running) {
      if (!isHttp2Response(res) || res.stream.destroyed) continue;
      const { stream } = res;
      const before = seen.get(stream);
      const now = before ?? firstLook(stream);
      if (hasReadLately(res)) now.drained = true;
      if (before === undefined) seen.set(stream, now);
      else lookAgain(stream, now, limits.checkIntervalMs);
      const uploadMsMax = isConversing(res, isConversation) ? limits.conversationMsMax : limits.requestMsMax;
      if (now.uploadMs > uploadMsMax || now.stalledMs > stalledMsMax(stream, limits)) end(stream);
    }
  };
}

/** The observations of a stream since its first check. */
interface Seen {
  /** How long the caller has been sending its request; 0 once the request is complete. */
  uploadMs: number;
  /** How long bytes have waited for the caller without a moment in which none waited. */
  stalledMs: number;
  /** Whether the caller has read all waiting bytes since the last check. More may wait now. */
  drained: boolean;
}

function firstLook(stream: ServerHttp2Stream): Seen {
  const seen = { uploadMs: 0, stalledMs: 0, drained: false };
  stream.on("drain", () => {
    seen.drained = true;
  });
  return seen;
}

function lookAgain(stream: ServerHttp2Stream, seen: Seen, intervalMs: number): void {
  const waits = stream.writableLength > 0 || (stream.writableEnded && !stream.writableFinished);
  seen.stalledMs = waits && !seen.drained ? seen.stalledMs + intervalMs : 0;
  seen.uploadMs = stream.state.remoteClose === 1 ? 0 : seen.uploadMs + intervalMs;
  seen.drained = false;
}

/**
 * Node reports a large write only when all of it is read, so it gets the time that a slow caller
 * needs for its size.
 */
function stalledMsMax({ writableLength }: ServerHttp2Stream, limits: TransportLimits): number {
  return limits.stalledWriteMsMax + (1_000 * writableLength) / limits.writeBytesPerSecondMin;
}

/**
 * A request is a conversation until its answer has ended. What the caller sends after that is an
 * ordinary body.
 */
function isConversing(
  res: Http2ServerResponse,
  isConversation: StreamCheckOptions["isConversation"],
): boolean {
  return !res.stream.writableEnded && isConversation(res.req);
}

/** Resets the stream, and destroys it even if the reset can't be written. */
function end(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_CANCEL);
  stream.destroy();
}
