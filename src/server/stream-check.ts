import { constants, type Http2ServerResponse, type ServerHttp2Stream } from "node:http2";
import { isHttp2Response, type NodeRequest, type NodeResponse } from "./node-http.ts";
import type { TransportLimits } from "./transport-limits.ts";

export interface StreamCheckOptions {
  /** The answers that are not done, by whichever protocol. */
  readonly running: Iterable<NodeResponse>;
  readonly limits: TransportLimits;
  /** Whether the request is a conversation: its messages are answered one by one, while the caller sends on. */
  readonly isConversation: (req: NodeRequest) => boolean;
}

/**
 * Ends the HTTP/2 streams whose caller sends its request too slowly, or does not take what waits for it; to be called
 * every `checkIntervalMs`. HTTP/1.1's server has such limits itself, node's HTTP/2 has none that holds: a stream's own
 * timeout fires after twice its time, and never once `close` was called. One look at all of them from time to time
 * also costs a request nothing that is answered before it.
 */
export function createStreamCheck({ running, limits, isConversation }: StreamCheckOptions): () => void {
  const seen = new WeakMap<ServerHttp2Stream, Seen>();
  return () => {
    for (const res of running) {
      if (!isHttp2Response(res) || res.stream.destroyed) continue;
      const { stream } = res;
      const before = seen.get(stream);
      const now = before ?? firstLook(stream);
      if (before === undefined) seen.set(stream, now);
      else lookAgain(stream, now, limits.checkIntervalMs);
      const uploadMsMax = talks(res, isConversation) ? limits.conversationMsMax : limits.requestMsMax;
      if (now.uploadMs > uploadMsMax || now.stalledMs > stalledMsMax(stream, limits)) end(stream);
    }
  };
}

/** What is known of a stream since the first look at it. */
interface Seen {
  /** How long its caller has been sending; 0 once it is done. */
  uploadMs: number;
  /** How long bytes have waited for the caller without a moment in which all had been taken. */
  stalledMs: number;
  /** Since the last look all that waited was taken, whatever waits now. */
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

/** A large write is done only as a whole, so it is given the time that a slow caller needs for it. */
function stalledMsMax({ writableLength }: ServerHttp2Stream, limits: TransportLimits): number {
  return limits.stalledWriteMsMax + (1_000 * writableLength) / limits.writeBytesPerSecondMin;
}

/** A conversation is one until its answer has ended: what is sent after that is a body like any other. */
function talks(res: Http2ServerResponse, isConversation: StreamCheckOptions["isConversation"]): boolean {
  return !res.stream.writableEnded && isConversation(res.req);
}

/** Tells the peer by a reset, and lets go of the stream even where that can't be written. */
function end(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_CANCEL);
  stream.destroy();
}
