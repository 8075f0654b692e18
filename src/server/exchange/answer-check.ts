/** Ends the answers whose callers are too slow. */

import { constants } from "node:http2";
import { hasReadLately, isGone, isHttp2Response, type NodeRequest, type NodeResponse } from "../node-http.ts";
import type { TransportLimits } from "../transport.ts";

export interface AnswerCheckOptions {
  /** The answers that are not finished, over HTTP/1.1 and HTTP/2. */
  readonly running: Iterable<NodeResponse>;
  readonly limits: Pick<
    TransportLimits,
    "checkIntervalMs" | "requestMsMax" | "conversationMsMax" | "stalledWriteMsMax" | "writeBytesPerSecondMin"
  >;
  /**
   * Whether the request is a conversation: its messages are answered one by one, while the caller
   * continues to send.
   */
  readonly isConversation: (req: NodeRequest) => boolean;
}

/**
 * Returns a function that ends the answers whose caller does not read them, or over HTTP/2 sends
 * its request too slowly. Call it every `checkIntervalMs`. Node's own time-outs do not do this: all
 * that the caller sends extends the one of HTTP/1.1, and the one of a stream of HTTP/2 fires after
 * twice its time, and never after `close` was called. A regular check of all answers also costs
 * nothing for a request that is answered before it.
 */
export function createAnswerCheck({ running, limits, isConversation }: AnswerCheckOptions): () => void {
  const known = new WeakMap<NodeResponse, Times>();
  return () => {
    for (const res of running) {
      if (isGone(res)) continue;
      const hasRead = hasReadLately(res);
      const times = known.get(res);
      // An answer has its whole time from the first check on.
      if (times === undefined) {
        known.set(res, { uploadMs: 0, stalledMs: 0 });
        continue;
      }
      times.stalledMs = waitsForCaller(res) && !hasRead ? times.stalledMs + limits.checkIntervalMs : 0;
      times.uploadMs = isUploading(res) ? times.uploadMs + limits.checkIntervalMs : 0;
      const uploadMsMax = isConversing(res, isConversation) ? limits.conversationMsMax : limits.requestMsMax;
      if (times.stalledMs > stalledMsMax(res, limits) || times.uploadMs > uploadMsMax) end(res);
    }
  };
}

interface Times {
  /** How long the caller has been sending its request over HTTP/2. */
  uploadMs: number;
  /** How long bytes have waited for the caller, and it has read nothing. */
  stalledMs: number;
}

function waitsForCaller(res: NodeResponse): boolean {
  // An answer without a socket waits for another one, before it on the same connection.
  if (!isHttp2Response(res) && res.socket === null) return false;
  const stream = isHttp2Response(res) ? res.stream : res;
  return stream.writableLength > 0 || (stream.writableEnded && !stream.writableFinished);
}

/** Over HTTP/1.1 Node itself limits the time of a request. */
function isUploading(res: NodeResponse): boolean {
  return isHttp2Response(res) && res.stream.state.remoteClose !== 1;
}

/**
 * Node reports a large write only when all of it is read, so it gets the time that a slow caller
 * needs for its size.
 */
function stalledMsMax(res: NodeResponse, limits: AnswerCheckOptions["limits"]): number {
  const { writableLength } = isHttp2Response(res) ? res.stream : res;
  return limits.stalledWriteMsMax + (1_000 * writableLength) / limits.writeBytesPerSecondMin;
}

/**
 * A request is a conversation until its answer has ended. What the caller sends after that is an
 * ordinary body.
 */
function isConversing(res: NodeResponse, isConversation: AnswerCheckOptions["isConversation"]): boolean {
  return isHttp2Response(res) && !res.stream.writableEnded && isConversation(res.req);
}

/** Ends the answer, over HTTP/2 also if the reset of its stream can't be written. */
function end(res: NodeResponse): void {
  if (!isHttp2Response(res)) {
    res.destroy();
    return;
  }
  res.stream.close(constants.NGHTTP2_CANCEL);
  res.stream.destroy();
}
