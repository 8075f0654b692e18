import { Readable } from "node:stream";
import type { JsonValue } from "@bufbuild/protobuf";
import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { AppBackendService } from "#gen/keyrun/v1/app_backend_service_pb.ts";
import type { Clock, Timers } from "../base/clock.ts";
import { overloaded } from "../limit/byte-budget.ts";
import type { Redact } from "../log/redaction.ts";
import { fail, Refusal, refusalFrom } from "../refusal/refusal.ts";
import { createCleanWords } from "./app-words.ts";
import {
  type CallOutcome,
  type CallTimes,
  type GrpcAnswer,
  type GrpcCall,
  type GrpcMethod,
  type GrpcRequest,
  messageOf,
  outputOf,
  startCall,
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
  type RunOutput,
  type StreamPiece,
  sentDeadline,
} from "./runner.ts";
import { goesOnAfterOutput, wholeOutput } from "./stream/running-streams.ts";

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
    stream(run, backend, { deadlineMs, signal, alive }) {
      const request = { run, message: messageOf(run), cleanWords };
      const times = timesOf(run, deadlineMs);
      const methods: GrpcMethod[] = ["streamRun", "run"];
      const texts = new GrpcTexts(channels.acquire(backend), request, times, { methods, alive });
      signal.addEventListener("abort", () => texts.cancel(signal.reason), { once: true });
      return texts;
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
  readonly #output = Promise.withResolvers<RunOutput>();
  readonly #call: GrpcCall;
  #message: Buffer | undefined;
  #cancelled: Refusal | undefined;
  #texts: GrpcTexts | undefined;

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
  get output(): Promise<RunOutput> {
    return this.#output.promise;
  }

  cancel(reason: Refusal): void {
    if (this.#texts) {
      this.#texts.cancel(reason);
      return;
    }
    this.#cancelled ??= reason;
    // The peer may be gone without closing the connection. Later runs on it would all time out.
    if (reason.reason === "APP_TIMEOUT") this.#channel.retire();
    // Whether it was sent is known at its end.
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
    // The library says how the call ended only after its last message was read.
    this.#call.read();
  }

  onEnd(end: CallOutcome): void {
    if (!end.isOk && end.isUnimplemented && !this.#message && !this.#cancelled) {
      this.#join();
      return;
    }
    if (!end.isOk && end.refusal.reason === "APP_TIMEOUT") this.#channel.retire();
    this.#channel.release();
    const outcome = end.isOk ? this.#read() : end.refusal;
    if (this.#cancelled) this.#output.reject(endedBy(this.#cancelled, outcome));
    else if (outcome instanceof Refusal) this.#output.reject(outcome);
    else this.#output.resolve(outcome);
  }

  #read(): RunOutput | Refusal {
    return this.#message ? outputOf("run", this.#message) : appFailed("Run sent no message.");
  }

  #join(): void {
    const how = { methods: ["streamRun" as const], alive() {} };
    this.#texts = new GrpcTexts(this.#channel, this.#request, this.#times, how);
    const { reservation } = this.#request.run;
    this.#output.resolve(wholeOutput(this.#texts, this.#outputBytesMax, reservation));
  }
}

/**
 * The texts that a gRPC app sends, and then its JSON. It calls the first of the methods. Where the
 * app answers UNIMPLEMENTED before any message, nothing has run, and it calls the next one. A
 * message is asked for while less text than `grpcStreamAheadCharacters` waits for its reader. Texts
 * that wait together are read as one. To iterate gives an empty text once the answer has begun, and
 * throws what fails after the texts that came before. Iterate it once.
 */
class GrpcTexts implements AsyncIterable<StreamPiece>, GrpcAnswer {
  readonly #channel: ChannelLease;
  readonly #request: GrpcRequest;
  readonly #times: CallTimes;
  readonly #methods: GrpcMethod[];
  readonly #alive: () => void;
  readonly #begun = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<void>();
  readonly #texts = new Readable({
    encoding: "utf8",
    highWaterMark: runBounds.grpcStreamAheadCharacters,
    read: () => this.#call?.read(),
    destroy: (error, done) => void this.#cancel(error).then(done),
  });
  #method: GrpcMethod = "streamRun";
  #call: GrpcCall | undefined;
  #messages = 0;
  #output: JsonValue | undefined;
  /** The longest message for which it has reserved. */
  #reservedBytes = 0;
  #cancelled: Refusal | undefined;
  #failure: Refusal | undefined;

  /** Releases the channel when it is over. */
  constructor(
    channel: ChannelLease,
    request: GrpcRequest,
    times: CallTimes,
    { methods, alive }: { methods: GrpcMethod[]; alive: () => void },
  ) {
    this.#channel = channel;
    this.#request = request;
    this.#times = times;
    this.#methods = methods;
    this.#alive = alive;
    // The one who iterates gets the error. It may have come before.
    this.#texts.on("error", () => {});
    this.#startNext();
  }

  /** It ends only when the call is over. */
  async *[Symbol.asyncIterator](): AsyncGenerator<StreamPiece, void> {
    try {
      await this.#begun.promise;
      yield "";
      yield* this.#texts;
      if (this.#failure) throw this.#failure;
      if (this.#output !== undefined) yield { output: this.#output };
    } finally {
      this.#texts.destroy();
      await this.#over.promise;
    }
  }

  /** Ends the call soon, unless it is over. What nobody has read is lost. */
  cancel(reason: Refusal): void {
    this.#texts.destroy(reason);
  }

  async #cancel(error: Error | null): Promise<Error | null> {
    if (error !== null) this.#cancelled = refusalFrom(error);
    this.#endCall(this.#cancelled ?? fail("CANCELLED", { mayHaveRun: true }));
    await this.#over.promise;
    return this.#failure ?? error;
  }

  #endCall(reason: Refusal): void {
    // The peer may be gone without closing the connection. Later runs on it would all time out.
    if (reason.reason === "APP_TIMEOUT") this.#channel.retire();
    // Whether it was sent is known at its end.
    this.#call?.cancel();
  }

  onHead(): void {
    this.#begun.resolve();
  }

  onMessage(bytes: Buffer): void {
    if (this.#failure) return;
    this.#messages += 1;
    this.#begun.resolve();
    const read = this.#read(bytes);
    if (read instanceof Refusal) {
      this.#fail(read);
      return;
    }
    const { text = "", output } = read;
    if (this.#output !== undefined && (text !== "" || output !== undefined)) {
      this.#fail(goesOnAfterOutput());
      return;
    }
    if (output !== undefined) this.#output = output;
    // An empty text is no text to the stream, and only a sign of life.
    if (text === "") this.#alive();
    this.#texts.push(text);
  }

  /** What a message gives, or why the stream can't go on. */
  #read(bytes: Buffer): RunOutput | Refusal {
    if (this.#method === "run" && this.#messages > 1) return appFailed("Run sent two messages.");
    if (!this.#reserve(bytes.length)) return overloaded({ mayHaveRun: true });
    return outputOf(this.#method, bytes);
  }

  #reserve(bytes: number): boolean {
    const more = bytes - this.#reservedBytes;
    if (more <= 0) return true;
    this.#reservedBytes = bytes;
    return this.#request.run.reservation.reserve(more);
  }

  /** What came before is read first. */
  #fail(refusal: Refusal): void {
    this.#failure ??= refusal;
    this.#endCall(refusal);
  }

  onEnd(end: CallOutcome): void {
    const isNext = !end.isOk && end.isUnimplemented && this.#messages === 0 && this.#methods.length > 0;
    if (isNext && !this.#texts.destroyed) {
      this.#startNext();
      return;
    }
    if (!end.isOk && end.refusal.reason === "APP_TIMEOUT") this.#channel.retire();
    this.#channel.release();
    const outcome = this.#failure ?? (end.isOk ? this.#missing() : end.refusal);
    this.#failure = this.#cancelled ? endedBy(this.#cancelled, outcome) : outcome;
    if (this.#failure) this.#begun.reject(this.#failure);
    else this.#begun.resolve();
    this.#texts.push(null);
    this.#over.resolve();
  }

  #startNext(): void {
    this.#method = this.#methods.shift() ?? this.#method;
    this.#call = startCall(this.#channel, this.#method, this.#request, this.#times, this);
    // The head of the answer comes without being asked for, but most servers send it with the first
    // message.
    this.#call.read();
  }

  #missing(): Refusal | undefined {
    return this.#method === "run" && this.#messages === 0 ? appFailed("Run sent no message.") : undefined;
  }
}
