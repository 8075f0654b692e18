import { overloaded } from "../limit/byte-budget.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { appFailed, endedBy } from "./backend-runner.ts";
import { type CallEnd, type CallTimes, type GrpcAnswer, type GrpcCall, startCall } from "./grpc-call.ts";
import type { ChannelLease } from "./grpc-channels.ts";
import { type GrpcRequest, grpcPaths, textOf } from "./grpc-messages.ts";
import { GrpcPieces } from "./stream/grpc-pieces.ts";
import { wholeOutput } from "./stream/whole-output.ts";

/**
 * The output of a run by the one message that the app's `Run` answers, without the parts of a
 * stream. Where the app answers UNIMPLEMENTED before any message, nothing has run, and the output
 * is all that its `StreamRun` sends.
 */
export class GrpcText implements GrpcAnswer {
  readonly #channel: ChannelLease;
  readonly #request: GrpcRequest;
  readonly #times: CallTimes;
  readonly #outputBytesMax: number;
  readonly #output = Promise.withResolvers<string>();
  readonly #call: GrpcCall;
  #message: Buffer | undefined;
  #cancelled: Refusal | undefined;
  #pieces: GrpcPieces | undefined;

  /** Releases the channel when it is over. */
  constructor(channel: ChannelLease, request: GrpcRequest, times: CallTimes, outputBytesMax: number) {
    this.#channel = channel;
    this.#request = request;
    this.#times = times;
    this.#outputBytesMax = outputBytesMax;
    const { message, run } = request;
    this.#call = startCall(channel, { path: grpcPaths.run, message, run, ...times }, this);
    this.#call.read();
  }

  /** Settles after the call is over. */
  get output(): Promise<string> {
    return this.#output.promise;
  }

  cancel(reason: Refusal): void {
    if (this.#pieces) {
      this.#pieces.cancel(reason);
      return;
    }
    this.#cancelled ??= reason;
    // The peer may be gone without closing the connection. Later runs on it would all time out.
    if (reason.reason === "APP_TIMEOUT") this.#channel.retire();
    // Its end tells whether it was sent. Before that, the library does not know.
    this.#call.cancel();
  }

  onHead(): void {}

  onMessage(bytes: Buffer): void {
    if (this.#message) {
      this.cancel(appFailed("Run sent two messages."));
      return;
    }
    this.#request.drop();
    // The text that comes of it may take two bytes for each of these.
    if (!this.#request.run.held.take(2 * bytes.length)) this.cancel(overloaded({ mayHaveRun: true }));
    this.#message = bytes;
    // Only after all messages does the library tell how the call ended.
    this.#call.read();
  }

  onEnd(end: CallEnd): void {
    if (!end.isOk && end.isUnimplemented && !this.#message && !this.#cancelled) {
      this.#join();
      return;
    }
    this.#request.drop();
    if (!end.isOk && end.refusal.reason === "APP_TIMEOUT") this.#channel.retire();
    this.#channel.release();
    const outcome = end.isOk ? this.#text() : end.refusal;
    if (this.#cancelled) this.#output.reject(endedBy(this.#cancelled, outcome));
    else if (typeof outcome === "string") this.#output.resolve(outcome);
    else this.#output.reject(outcome);
  }

  #text(): string | Refusal {
    return this.#message ? textOf(this.#message) : appFailed("Run sent no message.");
  }

  #join(): void {
    const how = { ...this.#times, methods: ["streamRun"] } as const;
    this.#pieces = new GrpcPieces(this.#channel, this.#request, how);
    this.#output.resolve(wholeOutput(this.#pieces, this.#outputBytesMax, this.#request.run.held));
  }
}
