import type { Dispatcher } from "undici";
import type { Clock } from "../base/clock.ts";
import { innermostCause } from "../base/innermost-cause.ts";
import { Refusal } from "../refusal/refusal.ts";
import { mayRefuse, refusalIn, refusalOfHead } from "./app-refusals.ts";
import type { CleanWords } from "./app-words.ts";
import type { AppConnections } from "./http-connections.ts";
import { runBounds } from "./run-bounds.ts";
import { type AnswerWatch, appFailed, appUnreachable } from "./runner.ts";
import { ByteBuffer } from "./stream/byte-buffer.ts";

/**
 * Sends the call once, when a connection can take it, and never again: the app may have read it,
 * even if the connection breaks. Redirects are not followed. The reader gets a 200; what else the
 * app answers becomes a refusal here.
 */
export function beginExchange(
  { connections, clock }: { connections: AppConnections; clock: Clock },
  call: HttpCall,
  reader: AnswerReader,
): HttpExchange {
  const exchange = new HttpExchange(connections, clock, call, reader);
  exchange.begin();
  return exchange;
}

export class HttpExchange implements Dispatcher.DispatchHandler {
  readonly #connections: AppConnections;
  readonly #clock: Clock;
  readonly #call: HttpCall;
  readonly #reader: AnswerReader;
  #msLeft = 0;
  #hasBegunAgain = false;
  #controller: Dispatcher.DispatchController | undefined;
  #interimHeads = 0;
  /** The body in which the app may say why it refuses, and what it means without words. */
  #refusing: Refusing | undefined;
  #isOver = false;

  constructor(connections: AppConnections, clock: Clock, call: HttpCall, reader: AnswerReader) {
    this.#connections = connections;
    this.#clock = clock;
    this.#call = call;
    this.#reader = reader;
  }

  begin(): void {
    this.#connections.running += 1;
    this.#dispatch();
  }

  /** Whether the app may have read a part of the call. */
  get isSent(): boolean {
    return this.#controller !== undefined;
  }

  /** Reads no more of the answer until `resume`. What was read already may still be given. */
  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    if (!this.#isOver) this.#controller?.resume();
  }

  /**
   * Ends the exchange, with this refusal if the call was sent. The reader's `onEnd` is called
   * before this returns, and nothing after it. Does nothing if the exchange is over.
   */
  abort(refusal: Refusal): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#controller?.abort(aborted);
    this.#end(this.#controller ? refusal : appUnreachable("It ended before there was a connection."));
  }

  #dispatch(): void {
    const { path, headers, body } = this.#call;
    this.#msLeft = this.#msLeftNow();
    this.#connections.pool.dispatch(
      {
        method: "POST",
        path,
        headers: [...headers, "X-Keyrun-Deadline-Ms", String(this.#msLeft)],
        body,
        reset: body.length >= runBounds.backendLongBodyBytes,
      },
      this,
    );
  }

  #msLeftNow(): number {
    return Math.max(0, Math.floor(this.#call.deadlineMs - this.#clock.monotonicMs()));
  }

  /**
   * Called when the call is about to be written. An error here keeps the connection, and nothing is
   * written. So a call that waited for a connection begins again, once, with the time that is left
   * now. There is a connection then, so it does not wait again.
   */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#isOver) throw notSent;
    const isLate = this.#msLeft - this.#msLeftNow() > runBounds.backendDeadlineErrorMsMax;
    if (isLate && !this.#hasBegunAgain) {
      this.#hasBegunAgain = true;
      queueMicrotask(() => {
        if (!this.#isOver) this.#dispatch();
      });
      throw notSent;
    }
    this.#controller = controller;
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (this.#isOver) return;
    if (status < 200) {
      this.#countInterim();
      return;
    }
    this.#call.answered?.(status);
    this.#call.watch?.onHead(status, headers);
    const isPlain = (headers["content-encoding"] ?? "identity") === "identity";
    if (isPlain && status === 200) this.#reader.onHead(headers);
    else if (status === 200) this.abort(appFailed("The backend compressed its answer, unasked."));
    else this.#refuse(status, headers, isPlain);
  }

  #refuse(status: number, headers: AnswerHeaders, isPlain: boolean): void {
    const byHead = refusalOfHead(status, headers["retry-after"], () => this.#clock.unixMs());
    const hasWords = isPlain && mayRefuse(status);
    if (!hasWords && this.#call.watch === undefined) {
      this.abort(byHead);
      return;
    }
    const tooMany = `The backend answered ${status}, not 200, with too long a body to read.`;
    const body = new ByteBuffer(runBounds.appRefusalBytesMax, tooMany);
    this.#refusing = { status, body, byHead: hasWords ? undefined : byHead };
  }

  #countInterim(): void {
    this.#interimHeads += 1;
    const { backendInterimHeadsMax } = runBounds;
    if (this.#interimHeads <= backendInterimHeadsMax) return;
    this.abort(appFailed(`The backend sent more than ${backendInterimHeadsMax} heads before its answer.`));
  }

  onResponseData(_: Dispatcher.DispatchController, bytes: Buffer): void {
    if (this.#isOver) return;
    this.#call.watch?.onBytes(bytes);
    if (this.#refusing === undefined) this.#reader.onBytes(bytes);
    else this.#keepRefusal(this.#refusing, bytes);
  }

  #keepRefusal({ body, byHead }: Refusing, bytes: Buffer): void {
    try {
      body.append(bytes);
    } catch (tooMany) {
      if (!(tooMany instanceof Refusal)) throw tooMany;
      this.abort(byHead ?? tooMany);
    }
  }

  /** What the app says with an answer that is no 200, once it is whole. */
  #refusal(): Refusal | undefined {
    if (this.#refusing === undefined) return undefined;
    const { status, body, byHead } = this.#refusing;
    return byHead ?? refusalIn(body.take(), status, this.#call.cleanWords);
  }

  onResponseEnd(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#end(this.#refusal());
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.#isOver || error === notSent) return;
    this.#isOver = true;
    const failure = innermostCause(error);
    this.#end(this.#controller ? appFailed(`The exchange broke off: ${failure}.`) : appUnreachable(failure));
  }

  #end(refusal: Refusal | undefined): void {
    this.#connections.running -= 1;
    this.#connections.lastUseMs = this.#clock.monotonicMs();
    this.#reader.onEnd(refusal);
  }
}

/** One POST to an app. */
export interface HttpCall {
  readonly path: string;
  /** Names and values, alternating. The exchange adds `X-Keyrun-Deadline-Ms` and the length. */
  readonly headers: readonly string[];
  readonly body: Buffer;
  /** In monotonic time. `X-Keyrun-Deadline-Ms` has the whole milliseconds that are left. */
  readonly deadlineMs: number;
  /** Called with the status of the answer. */
  answered?(status: number): void;
  /** Gets what the app answers. Then the body of every answer is read, up to the bound. */
  readonly watch?: AnswerWatch | undefined;
  /** Makes the words of an app that refuses fit for the caller. */
  readonly cleanWords: CleanWords;
}

/** An answer that is no 200. `byHead` is what it means if its body is not asked for words. */
interface Refusing {
  readonly status: number;
  readonly body: ByteBuffer;
  readonly byHead: Refusal | undefined;
}

/** The media type of an answer without its parameters; empty if it names none, or a strange one. */
export function mediaTypeOf(headers: { readonly "content-type"?: string | string[] | undefined }): string {
  const type = String(headers["content-type"] ?? "").split(";", 1)[0] ?? "";
  return /^ *[\w.+-]{1,64}\/[\w.+-]{1,64} *$/.test(type) ? type.trim().toLowerCase() : "";
}

export type AnswerHeaders = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2];

/** Reads one answer. None of its methods throws. */
export interface AnswerReader {
  /** Called with the head of a 200 that is not compressed, once, and first. */
  onHead(headers: AnswerHeaders): void;
  /** Called with the bytes of the body, as they come. */
  onBytes(bytes: Buffer): void;
  /**
   * Called once, and last: the exchange is over on this side. Without a refusal the answer is
   * whole. It is APP_UNREACHABLE if it is certain that nothing was sent, otherwise APP_FAILED,
   * APP_REFUSED or APP_BUSY, or the refusal of `abort`.
   */
  onEnd(refusal: Refusal | undefined): void;
}

const notSent = new Error("The call was not sent.");
const aborted = new Error("The exchange was aborted.");
