import { overloaded } from "../../limit/byte-budget.ts";
import { streamTurns } from "../../limit/stream-turns.ts";
import type { Refusal } from "../../refusal/refusal.ts";
import { appFailed, endedBy } from "../backend-runner.ts";
import { type CallEnd, type CallTimes, type GrpcAnswer, type GrpcCall, startCall } from "../grpc-call.ts";
import type { ChannelLease } from "../grpc-channels.ts";
import { type GrpcMethod, type GrpcRequest, grpcPaths, textOf } from "../grpc-messages.ts";
import { runBounds } from "../run-bounds.ts";
import { Mailbox } from "./mailbox.ts";
import type { PieceSource } from "./piece-source.ts";

/**
 * The output of a gRPC app, a message at a time. It calls the first of the methods. Where the app
 * answers UNIMPLEMENTED before any message, nothing has run, and it calls the next one.
 */
export class GrpcPieces implements PieceSource, GrpcAnswer {
  readonly #channel: ChannelLease;
  readonly #request: GrpcRequest;
  readonly #times: CallTimes;
  readonly #methods: GrpcMethod[];
  readonly #begun = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  readonly #waiting = new Mailbox<string | undefined>();
  #method: GrpcMethod = "streamRun";
  #call: GrpcCall | undefined;
  #isReading = false;
  #messages = 0;
  /** What was read ahead, so that small messages can be passed on together. */
  #ahead: Buffer[] = [];
  #aheadBytes = 0;
  #end: { readonly refusal?: Refusal } | undefined;
  #cancelled: Refusal | undefined;

  /** Releases the channel when it is over. */
  constructor(
    channel: ChannelLease,
    request: GrpcRequest,
    how: CallTimes & { methods: readonly GrpcMethod[] },
  ) {
    this.#channel = channel;
    this.#request = request;
    this.#times = { msLeft: how.msLeft, timers: how.timers };
    this.#methods = [...how.methods];
    // The one that cancels it may not wait for its begin.
    this.#begun.promise.catch(() => {});
    this.#startNext();
  }

  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  get over(): Promise<void> {
    return this.#over.promise;
  }

  next(): string | undefined | Promise<string | undefined> {
    if (this.#cancelled) throw this.#cancelled;
    const message = this.#takeAhead();
    if (message) {
      this.#readAhead();
      const text = textOf(message);
      if (typeof text === "string") return text;
      throw text;
    }
    if (this.#end?.refusal) throw this.#end.refusal;
    if (this.#end) return undefined;
    this.#read();
    return this.#waiting.wait();
  }

  cancel(reason: Refusal): void {
    if (this.#end || this.#cancelled) return;
    this.#cancelled = reason;
    // The peer may be gone without closing the connection. Later runs on it would all time out.
    if (reason.reason === "APP_TIMEOUT") this.#channel.retire();
    // Its end tells whether it was sent. Before that, the library does not know.
    this.#call?.cancel();
  }

  onHead(): void {
    this.#begun.resolve();
  }

  onMessage(bytes: Buffer): void {
    if (this.#cancelled) return;
    this.#isReading = false;
    this.#messages += 1;
    this.#request.drop();
    this.#begun.resolve();
    if (this.#method === "run" && this.#messages > 1) this.cancel(appFailed("Run sent two messages."));
    else if (!this.#request.run.held.take(bytes.length)) this.cancel(overloaded({ mayHaveRun: true }));
    else {
      this.#ahead.push(bytes);
      this.#aheadBytes += bytes.length;
      if (streamTurns.mayRead()) this.#readAhead();
      this.#waiting.inTurn(() => this.#hand());
    }
  }

  onEnd(end: CallEnd): void {
    const isNext = !end.isOk && end.isUnimplemented && this.#messages === 0 && this.#methods.length > 0;
    if (isNext && !this.#cancelled) {
      this.#startNext();
      return;
    }
    this.#request.drop();
    if (!end.isOk && end.refusal.reason === "APP_TIMEOUT") this.#channel.retire();
    this.#channel.release();
    this.#over.resolve();
    const outcome = end.isOk ? this.#missing() : end.refusal;
    this.#settle(this.#cancelled ? endedBy(this.#cancelled, outcome) : outcome);
  }

  #hand(): void {
    const message = this.#takeAhead();
    if (message === undefined) {
      if (this.#end) this.#waiting.put(undefined);
      return;
    }
    const text = textOf(message);
    if (typeof text === "string") this.#waiting.put(text);
    else this.cancel(text);
  }

  #takeAhead(): Buffer | undefined {
    const message = this.#ahead.shift();
    const bytes = message?.length ?? 0;
    this.#aheadBytes -= bytes;
    this.#request.run.held.give(bytes);
    return message;
  }

  #readAhead(): void {
    const { streamAheadMessages, streamAheadMessageBytes } = runBounds;
    const hasRoom = this.#ahead.length < streamAheadMessages && this.#aheadBytes < streamAheadMessageBytes;
    if (hasRoom && !this.#end) this.#read();
  }

  #startNext(): void {
    this.#method = this.#methods.shift() ?? this.#method;
    const request = {
      path: grpcPaths[this.#method],
      message: this.#request.message,
      run: this.#request.run,
      ...this.#times,
    };
    this.#isReading = false;
    this.#call = startCall(this.#channel, request, this);
    // The head of the answer comes without being asked for, but most servers send it with the first
    // message.
    this.#read();
  }

  #read(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    this.#call?.read();
  }

  #settle(refusal: Refusal | undefined): void {
    this.#end = refusal ? { refusal } : {};
    if (refusal) this.#begun.reject(refusal);
    else this.#begun.resolve();
    // What came before a failure is passed on first, unless the reader ended it.
    if (refusal && (this.#cancelled || this.#ahead.length === 0)) this.#waiting.fail(refusal);
    else this.#waiting.inTurn(() => this.#hand());
  }

  #missing(): Refusal | undefined {
    return this.#method === "run" && this.#messages === 0 ? appFailed("Run sent no message.") : undefined;
  }
}
