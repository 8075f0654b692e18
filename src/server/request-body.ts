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
  return { kind: "whole", bytes: bytes ?? Buffer.alloc(0) };
}

/**
 * Reads the whole body as it comes and tells the outcome once: that it is over `bytesMax` at the first byte too many,
 * and what was held until then is let go.
 */
export function readBody(req: NodeRequest, res: NodeResponse, { bytesMax, done }: BodyReading): void {
  continueIfExpected(req, res);
  let chunks: Buffer[] = [];
  let size = 0;
  let over = false;
  // The listeners stay until the request is gone: taking them off costs more than calling them once more.
  const end = (outcome: BodyOutcome) => {
    if (over) return;
    over = true;
    chunks = [];
    done(outcome);
  };
  req.on("data", (chunk: Buffer) => {
    size += chunk.length;
    if (size <= bytesMax) return void chunks.push(chunk);
    if (!over) req.pause();
    end({ kind: "too_large" });
  });
  req.on("end", () => end({ kind: "whole", bytes: joined(chunks, size) }));
  req.on("close", () => end({ kind: "gone" }));
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

/** The one case that needs no copy is the usual one: a small body comes in one piece. */
function joined(chunks: readonly Buffer[], size: number): Uint8Array {
  const [first] = chunks;
  return chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks, size);
}
