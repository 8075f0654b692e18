import { constants } from "node:http2";
import { ownTurn } from "../../base/clock.ts";
import type { BodyChunkSource, BodyOutcome, BytesOfBody, WholeBody } from "../../http/handler.ts";
import { headerOf } from "../../http/request-head.ts";
import { type HeldBytes, overloaded } from "../../limit/byte-budget.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import { type Incoming, isGone, isHttp2Request, isHttp2Response } from "../node-http.ts";
import type { TransportLimits } from "../transport.ts";
import { bodyOfChunk, CollectedBytes, freeChunk } from "./collected-bytes.ts";

/**
 * The body of one request. It is read once, whole or in chunks, and the rest is dropped with the
 * response. Unless all of it is there at once, it is collected in one buffer: in Node's stream each
 * chunk would wait as an object, and a body that comes byte by byte would take hundreds of times
 * its memory.
 */
export class RequestBody {
  readonly #incoming: BodySource;
  readonly #limits: TransportLimits;
  #isAsked = false;
  /** Whether the caller asked for `100 Continue`, and has not got it. */
  #lacks100: boolean;
  /** Undefined while the bytes wait in Node's stream. */
  #collected: CollectedBytes | undefined;
  /** Bytes past these wait with the sender. */
  #bytesMax: number;
  /** Undefined while more bytes may come. */
  #end: "whole" | "cut_off" | undefined;
  /** Set once nobody reads any more: for a reason, or because the request was answered. */
  #stopped: Extract<BodyOutcome, { kind: "gone" }> | undefined;
  /** What counts the bytes of the body while it is read. */
  #held: HeldBytes | undefined;
  /** Counts what has arrived of a body that is read in chunks. */
  #count: () => void = ignore;
  /** Called when bytes have arrived, or no more will be read. */
  #wake: () => void = ignore;
  /** Whether the rest is dropped; undefined before the response. */
  #isDropped: boolean | undefined;
  #dropChunk: ((chunk: Buffer) => void) | undefined;
  #dropTimer: NodeJS.Timeout | undefined;

  constructor(incoming: BodySource, limits: TransportLimits) {
    this.#incoming = incoming;
    this.#limits = limits;
    this.#bytesMax = limits.waitingBodyBytesMax;
    this.#lacks100 = expects100(incoming);
    if (mayComeInManyChunks(incoming)) this.#collect();
  }

  /**
   * Returns the outcome if it is known without waiting: the body has arrived whole and is not long,
   * its announced length is over `bytesMax`, or the rest will never come. Otherwise undefined: then
   * call `read`.
   */
  atHand(bytesMax: number): BodyOutcome | undefined {
    this.#ask();
    const { req } = this.#incoming;
    if (this.#isLost()) return gone;
    if (declaredBytes(this.#incoming) > bytesMax) return { kind: "too_large" };
    // Node closes a connection whose caller does not get the 100.
    if (this.#lacks100) return undefined;
    if ((this.#collected?.size ?? req.readableLength) >= longBodyBytes) return undefined;
    if (this.#collected !== undefined) return this.#outcome(this.#collected, bytesMax);
    // Over HTTP/2 only a request without a body comes here.
    if (!isHttp2Request(req) && !req.complete) return undefined;
    this.#isDropped = false;
    // Without a number, `read` returns the first chunk alone, since Node 26.
    return bodyOfChunk(req, isHttp2Request(req) ? null : req.read(req.readableLength || undefined));
  }

  /**
   * Reads the whole body, after `atHand` returned undefined. At the first byte over `bytesMax` the
   * outcome is `too_large`. While it waits, `held` counts what has arrived; where there is no room
   * for it, the outcome is OVERLOADED.
   */
  async read(bytesMax: number, held: HeldBytes | undefined): Promise<BodyOutcome> {
    const collected = this.#begin(held);
    this.#bytesMax = bytesMax;
    this.#incoming.req.resume();
    try {
      for (;;) {
        const outcome = this.#stopped ?? this.#outcome(collected, bytesMax);
        if (outcome?.kind === "whole" && outcome.bytes.length >= longBodyBytes) {
          await ownTurn();
          return this.#stopped ?? outcome;
        }
        if (outcome !== undefined) return outcome;
        if (held?.takeUpTo(collected.size) === false) return { kind: "gone", reason: overloaded() };
        await this.#changed();
      }
    } finally {
      held?.release();
    }
  }

  /**
   * Returns the body in chunks, as much at once as has arrived. What is not taken waits with the
   * sender, past a bound. Node's own iterator would destroy the connection if the reader stopped
   * early.
   */
  chunks(held: HeldBytes | undefined, bytesOf: BytesOfBody): BodyChunkSource {
    this.#ask();
    const collected = this.#begin(held);
    this.#count = () => {
      const bytes = bytesOf(collected.arrivedBytes);
      if (this.#stopped === undefined && held?.takeUpTo(bytes) === false) this.giveUp(overloaded());
    };
    if (this.#isLost()) this.giveUp(fail("CANCELLED"));
    return Object.assign(this.#iterate(collected), { release: () => held?.release() });
  }

  async *#iterate(collected: CollectedBytes): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      this.#count();
      if (this.#stopped?.reason !== undefined) throw this.#stopped.reason;
      if (this.#stopped !== undefined) return;
      if (this.#end === "cut_off") throw fail("CANCELLED");
      if (collected.size > 0) yield this.#take(collected).bytes;
      else if (this.#end === "whole") return;
      else await this.#changed();
    }
  }

  /** Ends the reading: the body is gone, for this reason if there is one. */
  giveUp(reason?: Refusal): void {
    this.#stopped ??= reason === undefined ? gone : { kind: "gone", reason };
    this.#held?.release();
    this.#wake();
  }

  /**
   * Called with the response. Reads and drops the rest, so that the sender can finish and read the
   * response: if its upload were cut off, it would see a network error and upload again. Past the
   * bounds the connection closes, or over HTTP/2 the stream. Returns whether the connection would
   * close with the end of the response, before the rest is read: then this ends the response.
   */
  drop(): boolean {
    this.giveUp();
    const { req, res } = this.#incoming;
    if (isGone(res)) return false;
    this.#isDropped ??= !req.readableEnded && declaredBytes(this.#incoming) !== 0;
    if (!this.#isDropped) return false;
    if (this.#dropChunk === undefined) this.#dropRest();
    // A caller may upload without its 100 (RFC 9110, section 10.1.1), also after the answer.
    return !isHttp2Response(res) && (!res.shouldKeepAlive || this.#lacks100);
  }

  #dropRest(): void {
    const { req } = this.#incoming;
    const { drainedBodyMsMax, unaskedBodyMsMax } = this.#limits;
    let { drainedBodyBytesMax: bytesLeft, drainedBodyChunksMax: chunksLeft } = this.#limits;
    let isUnasked = this.#lacks100;
    const cutOff = () => {
      this.#dropChunk = ignore;
      if (isHttp2Request(req)) req.stream.close(constants.NGHTTP2_NO_ERROR);
      else req.socket.destroySoon();
    };
    const within = (msMax: number) => {
      clearTimeout(this.#dropTimer);
      this.#dropTimer = setTimeout(cutOff, msMax);
    };
    this.#dropChunk = (chunk) => {
      if (isUnasked) within(drainedBodyMsMax);
      isUnasked = false;
      bytesLeft -= chunk.length;
      chunksLeft -= 1;
      freeChunk(req, chunk);
      if (bytesLeft < 0 || chunksLeft < 0) cutOff();
    };
    within(isUnasked ? unaskedBodyMsMax : drainedBodyMsMax);
    this.#take(this.#collect()).free?.();
  }

  #ask(): void {
    if (this.#isAsked) throw new Error("the body was asked for twice");
    this.#isAsked = true;
  }

  /** Begins a reading that may wait, and sends `100 Continue` to a caller that waits for it. */
  #begin(held: HeldBytes | undefined): CollectedBytes {
    if (this.#lacks100) this.#incoming.res.writeContinue();
    this.#lacks100 = false;
    this.#held = held;
    return this.#collect();
  }

  #changed(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return promise;
  }

  /** Whether the rest will never come, or its sender can't be answered. */
  #isLost(): boolean {
    const { req, res } = this.#incoming;
    return isGone(res) || (req.destroyed && this.#end !== "whole");
  }

  #outcome(collected: CollectedBytes, bytesMax: number): BodyOutcome | undefined {
    if (collected.size > bytesMax) return { kind: "too_large" };
    if (this.#end !== "whole") return this.#end && gone;
    this.#isDropped = false;
    return this.#take(collected);
  }

  #collect(): CollectedBytes {
    if (this.#collected !== undefined) return this.#collected;
    const { req, res } = this.#incoming;
    const collected = new CollectedBytes(req, declaredBytes(this.#incoming));
    this.#collected = collected;
    req.on("data", (chunk: Buffer) => {
      if (this.#dropChunk !== undefined) return this.#dropChunk(chunk);
      collected.add(chunk, this.#bytesMax);
      if (collected.size > this.#bytesMax) req.pause();
      this.#count();
      this.#wake();
    });
    // Over HTTP/2 a reset stream ends like a whole one, if its code is NO_ERROR.
    req.on("end", () => this.#endAs(isHttp2Request(req) && req.stream.aborted ? "cut_off" : "whole"));
    req.on("close", () => {
      this.#endAs("cut_off");
      if (this.#isDropped) res.end();
    });
    return collected;
  }

  #endAs(end: "whole" | "cut_off"): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    // Over HTTP/2 `close` waits until the caller has read its answer. The upload is not late then.
    clearTimeout(this.#dropTimer);
    this.#wake();
    if (end === "cut_off") this.#take(this.#collect()).free?.();
  }

  #take(collected: CollectedBytes): WholeBody {
    this.#incoming.req.resume();
    return collected.take();
  }
}

type BodySource = Pick<Incoming, "head" | "req" | "res">;

/** Over HTTP/1.1 only a body with a transfer coding may be of many chunks that arrive together. */
function mayComeInManyChunks({ head, req }: BodySource): boolean {
  if (isHttp2Request(req)) return !req.stream.endAfterHeaders;
  return headerOf(head, "transfer-encoding") !== undefined;
}

function expects100({ head }: BodySource): boolean {
  return head.httpVersion !== "1.0" && /100-continue/i.test(headerOf(head, "expect") ?? "");
}

/** The announced length of the body: 0 if there is no body, NaN if no length was announced. */
function declaredBytes(incoming: BodySource): number {
  const length = headerOf(incoming.head, "content-length");
  if (length !== undefined) return Number(length);
  return mayComeInManyChunks(incoming) ? Number.NaN : 0;
}

const ignore = () => {};
const gone = { kind: "gone" } as const;

/** To parse and check a body from this length on takes a good part of a millisecond. */
const longBodyBytes = 64 * 1024;
