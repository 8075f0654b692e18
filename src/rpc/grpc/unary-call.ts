import { create, type DescMessage, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import type { Call, Principal } from "../../auth/principal.ts";
import { type HttpRequest, wholeBody } from "../../http/handler.ts";
import { fail } from "../../refusal/refusal.ts";
import { CallDeadline } from "../call-deadline.ts";
import { invokeOnce } from "../invoke.ts";
import type { RpcParts } from "../rpc-parts.ts";
import type { Rpc } from "../served.ts";
import { frameOf, prefixBytes, readMessage, readTimeoutMs } from "./frame.ts";

type UnaryCallParts = Pick<RpcParts, "policy" | "sessions" | "audit" | "clock" | "messageBytesMax">;

/**
 * An authenticated unary call: reads its body, runs its work within the deadline, and frames the
 * result.
 */
export class UnaryCall implements Call {
  readonly principal: Principal;
  readonly http: HttpRequest;
  readonly subject = {};
  readonly #parts: UnaryCallParts;
  readonly #rpc: Rpc;
  readonly #end: CallDeadline;
  #deadlineMs: number | undefined;
  /** The metadata that the work has set; undefined if the work has not used it. */
  setMetadata: { readonly headers: Headers; readonly trailers: Headers } | undefined;

  constructor(
    parts: UnaryCallParts,
    rpc: Rpc,
    { request, principal }: { readonly request: HttpRequest; readonly principal: Principal },
  ) {
    this.principal = principal;
    this.http = request;
    this.#parts = parts;
    this.#rpc = rpc;
    this.#end = new CallDeadline(request.signal);
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  timeoutMs(): number | undefined {
    return this.#deadlineMs === undefined ? undefined : this.#deadlineMs - this.#parts.clock.monotonicMs();
  }

  get responseHeaders(): Headers {
    return this.#metadata().headers;
  }

  get responseTrailers(): Headers {
    return this.#metadata().trailers;
  }

  #metadata() {
    this.setMetadata ??= { headers: new Headers(), trailers: new Headers() };
    return this.setMetadata;
  }

  /** Resolves with the frame of the response. Rejects with a refusal. */
  async run(): Promise<Uint8Array> {
    const timeout = this.http.header("grpc-timeout");
    const timeoutMs = readTimeoutMs(timeout, this.#rpc.unaryMsMax);
    if (timeout !== undefined) this.#deadlineMs = this.#parts.clock.monotonicMs() + timeoutMs;
    const admitted = { call: this, deadline: this.#end, read: () => this.#read(), timeoutMs };
    return frameWith(this.#rpc.method.output, await invokeOnce(this.#parts, this.#rpc, admitted));
  }

  async #read(): Promise<Message> {
    const { policy, messageBytesMax } = this.#parts;
    const { method } = this.#rpc;
    const bytesMax = policy.requestBytesMaxOf(method, messageBytesMax);
    const body = await this.http.readBody(prefixBytes + bytesMax);
    return messageIn(method.input, readMessage(wholeBody(body, bytesMax)));
  }
}

function messageIn(desc: DescMessage, bytes: Uint8Array): Message {
  try {
    return fromBinary(desc, bytes);
  } catch (cause) {
    const problem = `The message can't be read as ${desc.typeName}.`;
    throw fail("INVALID_ARGUMENT", { problem, cause });
  }
}

/**
 * The cast is safe: the types of `ServiceMethods` make the method return its output message, or an
 * object to create it from.
 */
function frameWith(desc: DescMessage, answer: unknown): Uint8Array {
  return frameOf(toBinary(desc, create(desc, answer as Message)));
}
