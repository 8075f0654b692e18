import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { AppBackendService } from "#gen/keyrun/v1/app_backend_service_pb.ts";
import type { Clock, Timers } from "../base/clock.ts";
import { overloaded } from "../limit/byte-budget.ts";
import { streamTurns } from "../limit/stream-turns.ts";
import type { Redact } from "../log/redaction.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { createCleanWords } from "./app-words.ts";
import {
  type CallOutcome,
  type CallTimes,
  type GrpcAnswer,
  type GrpcCall,
  type GrpcMethod,
  type GrpcRequest,
  messageOf,
  startCall,
  textOf,
} from "./grpc-call.ts";
import { type ChannelLease, createGrpcChannels } from "./grpc-channels.ts";
import type { HostLookup } from "./host-lookup.ts";
import { runBounds } from "./run-bounds.ts";
import {
  appFailed,
  type BackendRunner,
  type CallTrace,
  endedBy,
  type RemoteBackend,
  type Run,
  sentDeadline,
} from "./runner.ts";
import { Mailbox, type PieceSource } from "./stream/piece-source.ts";
import { wholeOutput } from "./stream/running-streams.ts";

/**
 * Runs apps on a gRPC server that implements `keyrun.v1.AppBackendService`: one call, with what is
 * left to the app or its caller as its deadline, and with `x-request-id` and the trace context in
 * its metadata. A call that got no connection, or none within `backendConnectMsMax`, becomes
 * APP_UNREACHABLE; if the server is down, that is at once. DEADLINE_EXCEEDED becomes APP_TIMEOUT,
 * unless it is the caller's. An app may refuse or be busy (`app-refusals.ts`), and is busy where it
 * refuses the stream. Every other status but OK becomes APP_FAILED, and so does a message of more
 * than `outputBytesMax` bytes. A server that has only one of the two methods is called twice: the
 * other method was UNIMPLEMENTED, so nothing had run.
 */
export function createGrpcRunner(
  clock: Clock,
  timers: Timers,
  hosts: HostLookup,
  { outputBytesMax, redact }: { outputBytesMax: number; redact: Redact },
): BackendRunner<GrpcBackend> {
  const channels = createGrpcChannels(hosts, { outputBytesMax });
  // The library would write text to stderr, where only our JSON log lines may go.
  setLogVerbosity(logVerbosity.NONE);
  const cleanWords = createCleanWords(redact, []);
  const timesOf = (run: Run, deadlineMs: number): CallTimes => {
    const sentMs = sentDeadline(run, deadlineMs, clock);
    return {
      msLeft: () => deadlineMs - clock.monotonicMs(),
      msSent: () => sentMs - clock.monotonicMs(),
      timers,
    };
  };

  return {
    run(run, backend, limits) {
      const request = { run, message: messageOf(run), cleanWords };
      const times = timesOf(run, limits.deadlineMs);
      const text = new GrpcText(channels.acquire(backend), request, times, outputBytesMax);
      const { signal } = limits;
      signal.addEventListener("abort", () => text.cancel(signal.reason), { once: true });
      return text.output;
    },
    stream(run, backend, deadlineMs) {
      const request = { run, message: messageOf(run), cleanWords };
      const times = timesOf(run, deadlineMs);
      return new GrpcPieces(channels.acquire(backend), request, times, ["streamRun", "run"]);
    },
    traceOf: ({ target }, isStreamed) => traceOfCall(target, isStreamed),
    close: () => channels.close(),
  };
}

type GrpcBackend = Extract<RemoteBackend, { kind: "grpc" }>;

function traceOfCall(target: string, isStreamed: boolean): CallTrace {
  const service = AppBackendService.typeName;
  const { name } = AppBackendService.method[isStreamed ? "streamRun" : "run"];
  // A target is no part of a URL: not every name that it may have is a host to `URL`.
  const colon = target.lastIndexOf(":");
  return {
    spanName: `${service}/${name}`,
    attributes: {
      "server.address": target.slice(0, colon),
      "server.port": Number(target.slice(colon + 1)),
      "rpc.system": "grpc",
      "rpc.service": service,
      "rpc.method": name,
    },
    statusAttribute: "rpc.grpc.status_code",
  };
}

/**
 * The output of a run by the one message that the app's `Run` answers, without the parts of a
 * stream. Where the app answers UNIMPLEMENTED before any message, nothing has run, and the output
 * is all that its `StreamRun` sends.
 */
class GrpcText implements GrpcAnswer {
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
    this.#call = startCall(channel, "run", request, times, this);
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
    const isReserved = this.#request.run.reservation.reserve(bytes.length);
    if (!isReserved) this.cancel(overloaded({ mayHaveRun: true }));
    this.#message = bytes;
    // Only after all messages does the library tell how the call ended.
    this.#call.read();
  }

  onEnd(end: CallOutcome): void {
    if (!end.isOk && end.isUnimplemented && !this.#message && !this.#cancelled) {
      this.#join();
      return;
    }
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
    this.#pieces = new GrpcPieces(this.#channel, this.#request, this.#times, ["streamRun"]);
    this.#output.resolve(wholeOutput(this.#pieces, this.#outputBytesMax, this.#request.run.reservation));
  }
}

/**
 * The output of a gRPC app, a message at a time. It calls the first of the methods. Where the app
 * answers UNIMPLEMENTED before any message, nothing has run, and it calls the next one.
 */
class GrpcPieces implements PieceSource, GrpcAnswer {
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
  /** The most bytes for which it has reserved. */
  #reservedBytes = 0;
  #end: { readonly refusal?: Refusal } | undefined;
  #cancelled: Refusal | undefined;

  /** Releases the channel when it is over. */
  constructor(channel: ChannelLease, request: GrpcRequest, times: CallTimes, methods: GrpcMethod[]) {
    this.#channel = channel;
    this.#request = request;
    this.#times = times;
    this.#methods = methods;
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
    this.#begun.resolve();
    if (this.#method === "run" && this.#messages > 1) this.cancel(appFailed("Run sent two messages."));
    else if (!this.#reserve(this.#aheadBytes + bytes.length)) this.cancel(overloaded({ mayHaveRun: true }));
    else {
      this.#ahead.push(bytes);
      this.#aheadBytes += bytes.length;
      if (streamTurns.mayRead()) this.#readAhead();
      this.#waiting.inTurn(() => this.#hand());
    }
  }

  onEnd(end: CallOutcome): void {
    const isNext = !end.isOk && end.isUnimplemented && this.#messages === 0 && this.#methods.length > 0;
    if (isNext && !this.#cancelled) {
      this.#startNext();
      return;
    }
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
    // The reader then cancels the call, which may be over by now.
    else this.#waiting.fail(text);
  }

  #takeAhead(): Buffer | undefined {
    const message = this.#ahead.shift();
    this.#aheadBytes -= message?.length ?? 0;
    return message;
  }

  /** Reserves once for the most bytes that have waited at the same time. */
  #reserve(bytes: number): boolean {
    const more = bytes - this.#reservedBytes;
    if (more <= 0) return true;
    this.#reservedBytes = bytes;
    return this.#request.run.reservation.reserve(more);
  }

  #readAhead(): void {
    const { streamAheadMessages, streamAheadMessageBytes } = runBounds;
    const hasRoom = this.#ahead.length < streamAheadMessages && this.#aheadBytes < streamAheadMessageBytes;
    if (hasRoom && !this.#end) this.#read();
  }

  #startNext(): void {
    this.#method = this.#methods.shift() ?? this.#method;
    this.#isReading = false;
    this.#call = startCall(this.#channel, this.#method, this.#request, this.#times, this);
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
