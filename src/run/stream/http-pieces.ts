import type { Reservation } from "../../http/handler.ts";
import { streamTurns } from "../../limit/stream-turns.ts";
import { Refusal } from "../../refusal/refusal.ts";
import type { AnswerHeaders, AnswerReader, HttpExchange } from "../http-exchange.ts";
import { runBounds } from "../run-bounds.ts";
import { appFailed } from "../runner.ts";
import { ByteBuffer } from "./byte-buffer.ts";
import { createDecoder, type PieceDecoder } from "./piece-decoder.ts";
import { Mailbox, type PieceSource } from "./piece-source.ts";

/**
 * The output of an HTTP app, in the form that the type of its answer names. The exchange is paused
 * while enough was read that nobody has asked for, and resumed when all of that is used up. With
 * each pause undici puts back what it did not parse, and with each resume it copies that again, so
 * to pause after each piece would cost as many copies of a read as it has pieces.
 */
export class HttpPieces implements PieceSource, AnswerReader {
  readonly #messageBytesMax: number;
  readonly #bodyBytesMax: number;
  readonly #reservation: Reservation;
  readonly #exchange: HttpExchange | undefined;
  readonly #begun = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  readonly #waiting = new Mailbox<string | undefined>();
  #decoder: PieceDecoder | undefined;
  /** What came while nobody waited: copies, so that many small chunks cost only their bytes. */
  readonly #unread: ByteBuffer;
  /** Bytes that were read since the last time that the decoder had no more. */
  #aheadBytes = 0;
  #bytes = 0;
  #isOver = false;
  #isDrained = false;
  #failure: Refusal | undefined;
  #cancelled: Refusal | undefined;

  constructor(
    { messageBytesMax, bodyBytesMax = runBounds.appStreamBodyBytesMax, reservation }: AnswerBounds,
    begin: (reader: AnswerReader) => HttpExchange,
  ) {
    this.#messageBytesMax = messageBytesMax;
    this.#bodyBytesMax = bodyBytesMax;
    this.#reservation = reservation;
    this.#unread = new ByteBuffer(bodyBytesMax, "The answer is too long.", reservation);
    // The one that cancels it may not wait for its begin.
    this.#begun.promise.catch(() => {});
    this.#exchange = begin(this);
  }

  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  get over(): Promise<void> {
    return this.#over.promise;
  }

  next(): string | undefined | Promise<string | undefined> {
    const taken = this.#take();
    if (taken !== needsMore) return taken;
    const waiting = this.#waiting.wait();
    this.#readOn();
    return waiting;
  }

  /** What `next` gives, unless it has to wait for it. */
  #take(): string | undefined | typeof needsMore {
    for (;;) {
      if (this.#cancelled) throw this.#cancelled;
      const text = this.#decoder?.next();
      if (text !== undefined) return text;
      if (this.#unread.isEmpty) break;
      this.#decoder?.feed(this.#unread.take());
    }
    if (this.#failure) throw this.#failure;
    return this.#isOver ? this.#last() : needsMore;
  }

  #readOn(): void {
    this.#aheadBytes = 0;
    this.#exchange?.resume();
  }

  /** Hands over the next text, the end, or the failure to read one. */
  #hand(): void {
    try {
      const taken = this.#take();
      if (taken === needsMore) this.#readOn();
      else this.#waiting.put(taken);
    } catch (thrown) {
      this.#waiting.fail(thrown);
      if (thrown instanceof Refusal) this.cancel(thrown);
    }
  }

  cancel(reason: Refusal): void {
    if (this.#isOver) return;
    this.#cancelled = reason;
    this.#exchange?.abort(reason);
  }

  onHead(headers: AnswerHeaders): void {
    const type = headers["content-type"];
    this.#decoder = new WholeCharacters(createDecoder(type, this.#messageBytesMax, this.#reservation));
    this.#begun.resolve();
  }

  onBytes(bytes: Buffer): void {
    this.#bytes += bytes.byteLength;
    if (this.#bytes > this.#bodyBytesMax) {
      this.cancel(appFailed(`The answer has more than ${this.#bodyBytesMax} bytes.`));
    } else {
      this.#keep(bytes);
      if (this.#cancelled) return;
      this.#aheadBytes += bytes.byteLength;
      const mayRead = streamTurns.mayRead();
      if (!mayRead || this.#aheadBytes >= runBounds.streamAheadBytes) this.#exchange?.pause();
      this.#waiting.inTurn(() => this.#hand());
    }
  }

  onEnd(refusal: Refusal | undefined): void {
    this.#isOver = true;
    // A run of which nothing was sent can't have timed out.
    const isUnsent = refusal !== undefined && this.#cancelled?.reason === "APP_TIMEOUT";
    this.#failure = isUnsent ? refusal : (this.#cancelled ?? refusal);
    this.#over.resolve();
    if (this.#failure) this.#begun.reject(this.#failure);
    if (this.#cancelled) this.#waiting.fail(this.#failure);
    else this.#waiting.inTurn(() => this.#hand());
  }

  #keep(bytes: Buffer): void {
    try {
      this.#unread.append(bytes);
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) throw thrown;
      this.cancel(thrown);
    }
  }

  /** What the end of the body completes, once. */
  #last(): string | undefined {
    if (this.#isDrained) return undefined;
    this.#isDrained = true;
    return this.#decoder?.end();
  }
}

interface AnswerBounds {
  /** Bytes of one message: a line, an event, or whole JSON. */
  readonly messageBytesMax: number;
  /** Bytes of the whole body, with comments and the framing of messages. */
  readonly bodyBytesMax?: number;
  /** Reserves for what was read and waits, and for the message that is not whole yet. */
  readonly reservation: Reservation;
}

const needsMore = Symbol("needs more");

/**
 * The same messages, with each character in one of them. An app that cuts its text by UTF-16 code
 * units may cut between the two halves of an emoji: the first half is held until the next message
 * with text. A half that never gets its other half stays in the text, which is then refused.
 */
class WholeCharacters implements PieceDecoder {
  readonly #messages: PieceDecoder;
  #half = "";

  constructor(messages: PieceDecoder) {
    this.#messages = messages;
  }

  feed(bytes: Buffer): void {
    this.#messages.feed(bytes);
  }

  next(): string | undefined {
    const text = this.#messages.next();
    if (text === undefined || text === "") return text;
    const whole = this.#half + text;
    const lastUnit = whole.charCodeAt(whole.length - 1);
    const hasHalf = lastUnit >= 0xd800 && lastUnit <= 0xdbff;
    this.#half = hasHalf ? whole.slice(-1) : "";
    return hasHalf ? whole.slice(0, -1) : whole;
  }

  end(): string | undefined {
    const last = this.#messages.end();
    return this.#half === "" ? last : this.#half + (last ?? "");
  }
}
