import { constants } from "node:http2";
import type { BodyOutcome } from "../edge/http.ts";
import { isGone, isHttp2Request, type NodeRequest, type NodeResponse } from "./node-http.ts";
import type { TransportLimits } from "./transport-limits.ts";

export interface BodyReading {
  readonly bytesMax: number;
  readonly done: (outcome: BodyOutcome) => void;
}

/**
 * What can be said of the body without waiting: it is here whole, its length was announced as over `bytesMax`, or the
 * rest will never come. Undefined where it takes `readBody`.
 */
export function bodyAtHand(req: NodeRequest, res: NodeResponse, bytesMax: number): BodyOutcome | undefined {
  if (isGone(res) || req.destroyed) return { kind: "gone" };
  if (declaredBytes(req) > bytesMax) return { kind: "too_large" };
  // HTTP/2's request calls itself complete only once it was read. Where a 100 was asked for and none is sent, node
  // closes the connection.
  if (!req.complete || isHttp2Request(req) || req.headers.expect !== undefined) return undefined;
  if (req.readableLength > bytesMax) return { kind: "too_large" };
  const bytes: Buffer | null = req.read();
  return { kind: "whole", bytes: bytes ?? noBytes };
}

/**
 * Reads the whole body as it comes and tells the outcome once: that it is over `bytesMax` at the first byte too many,
 * and what was held until then is let go. The answer ends the reading with an outcome of its caller's, if none was told.
 */
export function readBody(
  req: NodeRequest,
  res: NodeResponse,
  { bytesMax, done }: BodyReading,
): (outcome: BodyOutcome) => void {
  continueIfExpected(req, res);
  let held: Buffer = noBytes;
  let size = 0;
  let over = false;
  // The listeners stay until the request is gone: taking them off costs more than calling them once more.
  const end = (outcome: BodyOutcome) => {
    if (over) return;
    over = true;
    held = noBytes;
    done(outcome);
  };
  req.on("data", (chunk: Buffer) => {
    if (over) return;
    if (size + chunk.length > bytesMax) {
      req.pause();
      return end({ kind: "too_large" });
    }
    held = joined(held, size, chunk);
    size += chunk.length;
  });
  req.on("end", () => end({ kind: "whole", bytes: held.subarray(0, size) }));
  req.on("close", () => end({ kind: "gone" }));
  return end;
}

/**
 * Reads what is left of the body and drops it, so that the caller can finish its upload and read the answer that
 * came before; cut off earlier, clients see a network fault and upload again. Past the bounds the connection
 * closes, or over HTTP/2 the stream. Returns whether anything was left; `onDropped` is called once it no longer is.
 */
export function dropBody(req: NodeRequest, limits: TransportLimits, onDropped: () => void): boolean {
  if (req.readableEnded || declaredBytes(req) === 0) return false;
  let bytesLeft = limits.drainedBodyBytesMax;
  const onData = (chunk: Buffer) => {
    bytesLeft -= chunk.length;
    if (bytesLeft < 0) cutOff();
  };
  const cutOff = () => {
    req.off("data", onData);
    if (isHttp2Request(req)) req.stream.close(constants.NGHTTP2_NO_ERROR);
    else req.socket.destroySoon();
  };
  const timer = setTimeout(cutOff, limits.drainedBodyMsMax);
  // Over HTTP/2 `close` waits for the caller to take its answer, too, which is no fault of the upload.
  req.once("end", () => clearTimeout(timer));
  req.on("data", onData).once("close", () => {
    clearTimeout(timer);
    onDropped();
  });
  req.resume();
  return true;
}

/**
 * Lets a caller that sent `Expect: 100-continue` send its body. `readBody` does this by itself; a handler that reads
 * node's request on its own calls it first.
 */
export function continueIfExpected(req: NodeRequest, res: NodeResponse): void {
  const { expect } = req.headers;
  if (expect !== undefined && /100-continue/i.test(expect) && req.httpVersion !== "1.0") res.writeContinue();
}

/** The body's length as it was announced: 0 where there is none, NaN where the length will only show. */
function declaredBytes(req: NodeRequest): number {
  const length = req.headers["content-length"];
  if (length !== undefined) return Number(length);
  if (isHttp2Request(req)) return req.stream.endAfterHeaders ? 0 : Number.NaN;
  return req.headers["transfer-encoding"] === undefined ? 0 : Number.NaN;
}

/**
 * The first `size` bytes of `held` with the chunk behind them. The only chunk of a body is not copied; others are, into
 * one buffer with room for more: a body may come byte by byte, and an object for each would take many times its bytes.
 */
function joined(held: Buffer, size: number, chunk: Buffer): Buffer {
  if (size === 0) return chunk;
  const needed = size + chunk.length;
  const into = needed <= held.length ? held : Buffer.allocUnsafe(2 * needed);
  if (into !== held) held.copy(into, 0, 0, size);
  chunk.copy(into, size);
  return into;
}

const noBytes: Buffer = Buffer.alloc(0);
