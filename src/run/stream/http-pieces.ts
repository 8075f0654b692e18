import { Refusal } from "../../refusal/refusal.ts";
import { appFailed } from "../backend-runner.ts";
import { type AnswerHeaders, type AnswerReader, answerFault, type HttpExchange } from "../http-exchange.ts";
import { EventStreamDecoder } from "./event-stream-decoder.ts";
import { JsonLinesDecoder } from "./json-lines-decoder.ts";
import { Mailbox } from "./mailbox.ts";
import type { PieceDecoder } from "./piece-decoder.ts";
import type { PieceSource } from "./piece-source.ts";
import { WholeJsonDecoder } from "./whole-json-decoder.ts";

export interface AnswerBounds {
  /** Bytes of one message: a line, an event, or whole JSON. */
  readonly messageBytesMax: number;
  /** Bytes of the whole body, with comments and the framing of messages. */
  readonly bodyBytesMax: number;
}

/**
 * The output of an HTTP app, in the form that the type of its answer names. The exchange is paused
 * whenever nobody waits for a piece.
 */
export class HttpPieces implements PieceSource, AnswerReader {
  readonly #bounds: AnswerBounds;
  readonly #exchange: HttpExchange | undefined;
  readonly #begun = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  readonly #waiting = new Mailbox<string | undefined>();
  #decoder: PieceDecoder | undefined;
  /** What came in spite of the pause. */
  readonly #unread: Buffer[] = [];
  #bytes = 0;
  #isOver = false;
  #isDrained = false;
  #failure: Refusal | undefined;
  #cancelled: Refusal | undefined;

  constructor(bounds: AnswerBounds, begin: (reader: AnswerReader) => HttpExchange) {
    this.#bounds = bounds;
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
    for (;;) {
      if (this.#cancelled) throw this.#cancelled;
      const text = this.#decoder?.next();
      if (text !== undefined) return text;
      const bytes = this.#unread.shift();
      if (bytes) {
        this.#decoder?.feed(bytes);
        continue;
      }
      if (this.#failure) throw this.#failure;
      if (this.#isOver) return this.#last();
      const waiting = this.#waiting.wait();
      this.#exchange?.resume();
      return waiting;
    }
  }

  cancel(reason: Refusal): void {
    if (this.#isOver) return;
    this.#cancelled = reason;
    this.#exchange?.abort(reason);
  }

  onHead(status: number, headers: AnswerHeaders): void {
    const fault = answerFault(status, headers);
    if (fault) {
      this.cancel(fault);
      return;
    }
    this.#decoder = decoderOf(headers["content-type"], this.#bounds.messageBytesMax);
    this.#exchange?.pause();
    this.#begun.resolve();
  }

  onBytes(bytes: Buffer): void {
    const { bodyBytesMax } = this.#bounds;
    this.#bytes += bytes.byteLength;
    if (this.#bytes > bodyBytesMax) {
      this.cancel(appFailed(`The answer has more than ${bodyBytesMax} bytes.`));
    } else if (this.#waiting.isWaitedFor) {
      this.#hand(() => {
        this.#decoder?.feed(bytes);
        return this.#decoder?.next();
      });
    } else {
      this.#unread.push(bytes);
    }
  }

  onEnd(refusal: Refusal | undefined): void {
    this.#isOver = true;
    // A run of which nothing was sent can't have timed out.
    const isUnsent = refusal !== undefined && this.#cancelled?.reason === "APP_TIMEOUT";
    this.#failure = isUnsent ? refusal : (this.#cancelled ?? refusal);
    this.#over.resolve();
    if (this.#failure) {
      this.#begun.reject(this.#failure);
      this.#waiting.fail(this.#failure);
    } else if (this.#waiting.isWaitedFor) {
      this.#hand(() => this.#last());
      if (this.#waiting.isWaitedFor) this.#waiting.put(undefined);
    }
  }

  /** Hands the text to the one who waits, or the failure to read it. */
  #hand(read: () => string | undefined): void {
    try {
      const text = read();
      if (text === undefined) return;
      this.#exchange?.pause();
      this.#waiting.put(text);
    } catch (thrown) {
      this.#waiting.fail(thrown);
      if (thrown instanceof Refusal) this.cancel(thrown);
    }
  }

  /** What the end of the body completes, once. */
  #last(): string | undefined {
    if (this.#isDrained) return undefined;
    this.#isDrained = true;
    return this.#decoder?.end();
  }
}

/** Whether this is the type of an answer that has many messages. */
export function isStreamType(contentType: string | string[] | undefined): boolean {
  const type = typeOf(contentType);
  return type === eventStream || type === jsonLines;
}

/**
 * Any type but those of streams is read as whole JSON, as the answer of a run is: an app that can
 * be run can be streamed.
 */
function decoderOf(contentType: string | string[] | undefined, bytesMax: number): PieceDecoder {
  switch (typeOf(contentType)) {
    case eventStream:
      return new EventStreamDecoder(bytesMax);
    case jsonLines:
      return new JsonLinesDecoder(bytesMax);
    default:
      return new WholeJsonDecoder(bytesMax);
  }
}

const eventStream = "text/event-stream";
const jsonLines = "application/x-ndjson";

function typeOf(contentType: string | string[] | undefined): string | undefined {
  // The usual type of a run's answer needs no look.
  if (typeof contentType !== "string" || contentType === "application/json") return undefined;
  const [type = ""] = contentType.split(";", 1);
  return type.trim().toLowerCase();
}
