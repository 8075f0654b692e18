import { Readable } from "node:stream";
import type { Reservation } from "../../http/handler.ts";
import { fail, type Refusal, refusalFrom } from "../../refusal/refusal.ts";
import type { AnswerHeaders, AnswerReader, HttpExchange } from "../http-exchange.ts";
import { runBounds } from "../run-bounds.ts";
import { appFailed, endedBy, type StreamPiece } from "../runner.ts";
import { createDecoder, type MessageReader, type PieceDecoder } from "./piece-decoder.ts";

/**
 * The texts of an HTTP app's answer, and its JSON, in the form that its type names. The exchange is
 * paused while `streamAheadBytes` of it wait for the reader. To iterate gives an empty text once
 * the answer has begun and with each sign of life, and throws what fails after the texts that came
 * before. Iterate it once.
 */
export class HttpTexts implements AsyncIterable<StreamPiece>, AnswerReader {
  readonly #bounds: AnswerBounds;
  readonly #exchange: HttpExchange;
  readonly #head = Promise.withResolvers<PieceDecoder>();
  readonly #body = new Readable({
    highWaterMark: runBounds.streamAheadBytes,
    read: () => this.#exchange.resume(),
    destroy: (error, done) => done(this.#abort(error)),
  });
  #bytes = 0;
  #cancelled: Refusal | undefined;
  #failure: Refusal | undefined;

  constructor(bounds: AnswerBounds, begin: (reader: AnswerReader) => HttpExchange) {
    this.#bounds = bounds;
    // The one who iterates gets the error. It may have come before.
    this.#body.on("error", () => {});
    this.#exchange = begin(this);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StreamPiece, void> {
    try {
      const decoder = await this.#head.promise;
      yield "";
      for await (const bytes of this.#body) {
        yield* joined(decoder.decode(bytes));
        if (this.#bounds.messages?.isDone) return;
      }
      if (this.#failure) throw this.#failure;
      yield* decoder.end();
    } finally {
      this.#body.destroy();
    }
  }

  /** Ends the exchange at once, unless it is over. What nobody has read is lost. */
  cancel(reason: Refusal): void {
    this.#body.destroy(reason);
  }

  #abort(error: Error | null): Error | null {
    if (error !== null) this.#cancelled = refusalFrom(error);
    this.#exchange.abort(this.#cancelled ?? fail("CANCELLED", { mayHaveRun: true }));
    return this.#failure ?? error;
  }

  onHead(headers: AnswerHeaders): void {
    const { messageBytesMax, reservation, messages } = this.#bounds;
    this.#head.resolve(createDecoder(headers["content-type"], messageBytesMax, reservation, messages));
  }

  onBytes(bytes: Buffer): void {
    const { bodyBytesMax = runBounds.appStreamBodyBytesMax } = this.#bounds;
    this.#bytes += bytes.byteLength;
    if (this.#bytes > bodyBytesMax) {
      this.#exchange.abort(appFailed(`The answer has more than ${bodyBytesMax} bytes.`));
    } else if (!this.#body.push(bytes)) this.#exchange.pause();
  }

  onEnd(refusal: Refusal | undefined): void {
    this.#failure = this.#cancelled && refusal ? endedBy(this.#cancelled, refusal) : refusal;
    if (this.#failure) this.#head.reject(this.#failure);
    this.#body.push(null);
  }
}

interface AnswerBounds {
  /** Bytes of one message: a line, an event, or whole JSON. */
  readonly messageBytesMax: number;
  /** Bytes of the whole body, with comments and the framing of messages. */
  readonly bodyBytesMax?: number;
  /** Reserves for the message that is not whole yet. */
  readonly reservation: Reservation;
  /** Finds the texts of an app that has a format of its own. */
  readonly messages?: MessageReader | undefined;
}

/** The same pieces, with the texts of up to `streamJoinedMessages` messages in one. */
function* joined(pieces: Iterable<StreamPiece>): Generator<StreamPiece, void> {
  let texts: string[] = [];
  try {
    for (const piece of pieces) {
      const isText = typeof piece === "string";
      if (isText) texts.push(piece);
      if (isText && texts.length < runBounds.streamJoinedMessages) continue;
      yield texts.join("");
      texts = [];
      if (!isText) yield piece;
    }
  } catch (thrown) {
    yield texts.join("");
    throw thrown;
  }
  if (texts.length > 0) yield texts.join("");
}
