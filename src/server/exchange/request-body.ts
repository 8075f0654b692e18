import { constants } from "node:http2";
import { ownTurn } from "../../base/clock.ts";
import type { BodyOutcome, Reservation } from "../../http/handler.ts";
import { headerOf } from "../../http/request-head.ts";
import { overloaded } from "../../limit/byte-budget.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import { type Incoming, isGone, isHttp2Request, isHttp2Response } from "../node-http.ts";
import type { TransportLimits } from "../transport.ts";

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
  /** In which the buffer of a body reserves whose length was not announced. */
  #reservation: Reservation | undefined;
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
   * its announced length is over `bytesMax`, there is no room for it, or the rest will never come.
   * Otherwise undefined: then call `read`.
   */
  atHand(bytesMax: number, reservation: Reservation): BodyOutcome | undefined {
    this.#ask();
    const { req } = this.#incoming;
    if (this.#isLost()) return gone;
    if (declaredBytes(this.#incoming) > bytesMax) return { kind: "too_large" };
    this.#reserve(reservation);
    if (this.#stopped !== undefined) return this.#stopped;
    // Node closes a connection whose caller does not get the 100.
    if (this.#lacks100) return undefined;
    if ((this.#collected?.size ?? req.readableLength) >= longBodyBytes) return undefined;
    if (this.#collected !== undefined) return this.#outcome(this.#collected, bytesMax);
    // Over HTTP/2 only a request without a body comes here.
    if (!isHttp2Request(req) && !req.complete) return undefined;
    this.#isDropped = false;
    // Without a number, `read` returns the first chunk alone, since Node 26.
    const chunk = isHttp2Request(req) ? null : req.read(req.readableLength || undefined);
    return { kind: "whole", bytes: chunk ?? noBytes };
  }

  /**
   * Reads the whole body, after `atHand` returned undefined. At the first byte over `bytesMax` the
   * outcome is `too_large`.
   */
  async read(bytesMax: number): Promise<BodyOutcome> {
    const collected = this.#begin();
    this.#bytesMax = bytesMax;
    this.#incoming.req.resume();
    for (;;) {
      const outcome = this.#stopped ?? this.#outcome(collected, bytesMax);
      if (outcome?.kind === "whole" && outcome.bytes.length >= longBodyBytes) {
        await ownTurn();
        return this.#stopped ?? outcome;
      }
      if (outcome !== undefined) return outcome;
      await this.#changed();
    }
  }

  /**
   * Returns the body in chunks, as much at once as has arrived. What is not taken waits with the
   * sender, past a bound. Node's own iterator would destroy the connection if the reader stopped
   * early.
   */
  chunks(reservation: Reservation): AsyncIterable<Uint8Array> {
    this.#ask();
    const bytes = declaredBytes(this.#incoming);
    if (bytes > 0 && !reservation.reserve(bytes)) this.giveUp(overloaded());
    const collected = this.#begin();
    if (this.#isLost()) this.giveUp(fail("CANCELLED"));
    return this.#iterate(collected);
  }

  async *#iterate(collected: CollectedBytes): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      if (this.#stopped?.reason !== undefined) throw this.#stopped.reason;
      if (this.#stopped !== undefined) return;
      if (this.#end === "cut_off") throw fail("CANCELLED");
      if (collected.size > 0) yield this.#take(collected);
      else if (this.#end === "whole") return;
      else await this.#changed();
    }
  }

  /** Ends the reading: the body is gone, for this reason if there is one. */
  giveUp(reason?: Refusal): void {
    this.#stopped ??= reason === undefined ? gone : { kind: "gone", reason };
    this.#wake();
  }

  /** Reserves for the announced length, or else for the buffer as it grows. */
  #reserve(reservation: Reservation): void {
    const bytes = declaredBytes(this.#incoming);
    if (Number.isNaN(bytes)) this.#reservation = reservation;
    else if (bytes > 0 && !reservation.reserve(bytes)) this.giveUp(overloaded());
    this.#reserveForBuffer();
  }

  #reserveForBuffer(): void {
    if (this.#reservation?.reserveUpTo(this.#collected?.room ?? 0) === false) this.giveUp(overloaded());
  }

  /**
   * Nobody reads the body. A proxy may announce a body that it never sends: what comes next on its
   * connection is then another request, which would be taken for that body.
   */
  leave(): void {
    const { req, res } = this.#incoming;
    if (isHttp2Response(res) || req.complete) return;
    if (declaredBytes(this.#incoming) !== 0) res.shouldKeepAlive = false;
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
      if (bytesLeft < 0 || chunksLeft < 0) cutOff();
    };
    within(isUnasked ? unaskedBodyMsMax : drainedBodyMsMax);
    this.#take(this.#collect());
  }

  #ask(): void {
    if (this.#isAsked) throw new Error("the body was asked for twice");
    this.#isAsked = true;
  }

  /** Begins a reading that may wait, and sends `100 Continue` to a caller that waits for it. */
  #begin(): CollectedBytes {
    if (this.#lacks100) this.#incoming.res.writeContinue();
    this.#lacks100 = false;
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
    return { kind: "whole", bytes: this.#take(collected) };
  }

  #collect(): CollectedBytes {
    if (this.#collected !== undefined) return this.#collected;
    const { req, res } = this.#incoming;
    const collected = new CollectedBytes(declaredBytes(this.#incoming));
    this.#collected = collected;
    req.on("data", (chunk: Buffer) => {
      if (this.#dropChunk !== undefined) return this.#dropChunk(chunk);
      collected.add(chunk, this.#bytesMax);
      if (collected.size > this.#bytesMax) req.pause();
      this.#reserveForBuffer();
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
    if (end === "cut_off") this.#take(this.#collect());
  }

  #take(collected: CollectedBytes): Buffer {
    this.#incoming.req.resume();
    return collected.take();
  }
}

/** The bytes of a body that arrive one chunk after the other, in one buffer. */
class CollectedBytes {
  readonly #declaredBytes: number;
  #bytes: Buffer = noBytes;
  /** How many bytes are collected and not taken. */
  size = 0;

  /** `declaredBytes` is the announced length of the body; NaN if none was announced. */
  constructor(declaredBytes: number) {
    this.#declaredBytes = declaredBytes;
  }

  /** How many bytes the buffer has room for. */
  get room(): number {
    return this.#bytes.length;
  }

  /** Adds a chunk. `bytesMax` are the most bytes that will be collected. */
  add(chunk: Buffer, bytesMax: number): void {
    const size = this.size + chunk.length;
    // The only chunk of a body is not copied.
    if (this.size === 0) this.#bytes = chunk;
    else {
      if (size > this.#bytes.length) this.#grow(size, bytesMax);
      chunk.copy(this.#bytes, this.size);
    }
    this.size = size;
  }

  /** Makes room for the whole body if its length is known, otherwise for more than is needed. */
  #grow(needed: number, bytesMax: number): void {
    const isKnown = this.#declaredBytes >= needed && this.#declaredBytes <= bytesMax;
    const roomy = Math.min(Math.max(2 * needed, grownBytesMin), Math.max(needed, bytesMax));
    const grown = Buffer.allocUnsafe(isKnown ? this.#declaredBytes : roomy);
    this.#bytes.copy(grown, 0, 0, this.size);
    this.#bytes = grown;
  }

  /** Returns what is collected, which the caller then owns. */
  take(): Buffer {
    const taken = this.#bytes.subarray(0, this.size);
    this.#bytes = noBytes;
    this.size = 0;
    return taken;
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
const noBytes: Buffer = Buffer.alloc(0);
const gone = { kind: "gone" } as const;

/** So that a body that comes byte by byte does not grow many times. */
const grownBytesMin = 1_024;

/** To parse and check a body from this length on takes a good part of a millisecond. */
const longBodyBytes = 64 * 1024;
