import { constants } from "node:http2";
import type { BodyOutcome } from "../../http/handler.ts";
import { headerOf, type RequestHead } from "../../http/request-head.ts";
import { type Incoming, isGone, isHttp2Request, type NodeRequest } from "../node-http.ts";
import type { TransportLimits } from "../transport-limits.ts";

export interface BodyReading {
  readonly bytesMax: number;
  readonly done: (outcome: BodyOutcome) => void;
}

/**
 * Returns the outcome of the body if it is known without waiting: the body has arrived whole, its
 * announced length is over `bytesMax`, or the rest will never come. Otherwise undefined: then call
 * `readBody`.
 */
export function bodyAtHand({ head, req, res }: Incoming, bytesMax: number): BodyOutcome | undefined {
  if (isGone(res) || req.destroyed) return { kind: "gone" };
  if (declaredBytes(head, req) > bytesMax) return { kind: "too_large" };
  // A request over HTTP/2 is `complete` only after it was read. If the caller expects a 100 and
  // gets none, Node closes the connection.
  if (!req.complete || isHttp2Request(req) || headerOf(head, "expect") !== undefined) return undefined;
  if (req.readableLength > bytesMax) return { kind: "too_large" };
  const bytes: Buffer | null = req.read();
  return { kind: "whole", bytes: bytes ?? noBytes };
}

/**
 * Reads the whole body and calls `done` once with the outcome. At the first byte over `bytesMax`
 * the outcome is `too_large`, and the bytes so far are freed. The returned function ends the
 * reading with another outcome, if there is none yet.
 */
export function readBody(
  incoming: Incoming,
  { bytesMax, done }: BodyReading,
): (outcome: BodyOutcome) => void {
  const { req } = incoming;
  continueIfExpected(incoming);
  let held: Buffer = noBytes;
  let size = 0;
  let over = false;
  // The listeners stay until the request is destroyed: removing them costs more than calling them
  // once more.
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
  req.on("end", () =>
    end(isCutOff(req) ? { kind: "gone" } : { kind: "whole", bytes: held.subarray(0, size) }),
  );
  req.on("close", () => end({ kind: "gone" }));
  return end;
}

/**
 * Reads the rest of the body and drops it, so that the caller can finish its upload and read the
 * answer. If the upload were cut off, clients would see a network error and upload again. Past the
 * bounds the connection closes, or over HTTP/2 the stream. Returns whether a rest is left to drop;
 * if so, `onDropped` is called when the request is closed.
 */
export function dropBody({ head, req }: Incoming, limits: TransportLimits, onDropped: () => void): boolean {
  if (req.readableEnded || declaredBytes(head, req) === 0) return false;
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
  // Over HTTP/2 `close` also waits until the caller has read its answer. The upload is not late
  // then.
  req.once("end", () => clearTimeout(timer));
  req.on("data", onData).once("close", () => {
    clearTimeout(timer);
    onDropped();
  });
  req.resume();
  return true;
}

/**
 * Sends `100 Continue` to a caller that sent `Expect: 100-continue`, so that it sends its body.
 * Call it before the body is read; `readBody` calls it itself.
 */
export function continueIfExpected({ head, res }: Incoming): void {
  const expect = headerOf(head, "expect");
  if (expect !== undefined && /100-continue/i.test(expect) && head.httpVersion !== "1.0") res.writeContinue();
}

/**
 * Returns the announced length of the body: 0 if there is no body, NaN if no length was announced.
 */
function declaredBytes(head: RequestHead, req: NodeRequest): number {
  const length = headerOf(head, "content-length");
  if (length !== undefined) return Number(length);
  if (isHttp2Request(req)) return req.stream.endAfterHeaders ? 0 : Number.NaN;
  return headerOf(head, "transfer-encoding") === undefined ? 0 : Number.NaN;
}

/**
 * Returns the first `size` bytes of `held`, followed by the chunk. The only chunk of a body is not
 * copied. Several chunks are copied into one buffer with room for more: a body may come byte by
 * byte, and an object for each byte would take many times the memory.
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

/** Over HTTP/2 a reset stream ends like a whole one, if its code is NO_ERROR. */
export function isCutOff(req: NodeRequest): boolean {
  return isHttp2Request(req) && req.stream.aborted;
}
