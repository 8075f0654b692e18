import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type Message,
  toBinary,
} from "@bufbuild/protobuf";
import type { Call, Principal } from "../../auth/principal.ts";
import type { Clock } from "../../base/clock.ts";
import { type HttpRequest, wholeBody } from "../../http/handler.ts";
import { fail } from "../../refusal/refusal.ts";
import type { AuditCalls } from "../audit/audit-calls.ts";
import { authorizeService } from "../authenticate.ts";
import { CallDeadline } from "../call-deadline.ts";
import { refusalOfWork, type Work } from "../served.ts";
import { frameOf, prefixBytes, readMessage, readTimeoutMs } from "./frame.ts";

/** A method and its implementation. */
export interface UnaryMethod {
  readonly method: DescMethodUnary;
  readonly work: Work;
  /** The longest time of a call. */
  readonly msMax: number;
}

/**
 * An authenticated unary call: reads its body, runs its work within the deadline, and frames the
 * result.
 */
export class UnaryCall implements Call {
  readonly principal: Principal;
  readonly http: HttpRequest;
  readonly #unary: UnaryMethod;
  readonly #clock: Clock;
  readonly #audit: Pick<AuditCalls, "unauthorized">;
  readonly #messageBytesMax: number;
  readonly #end: CallDeadline;
  #deadlineMs: number | undefined;
  /** The metadata that the work has set; undefined if the work has not used it. */
  setMetadata: { readonly headers: Headers; readonly trailers: Headers } | undefined;

  constructor(
    unary: UnaryMethod,
    {
      request,
      principal,
      clock,
      audit,
      messageBytesMax,
    }: {
      request: HttpRequest;
      principal: Principal;
      clock: Clock;
      audit: Pick<AuditCalls, "unauthorized">;
      messageBytesMax: number;
    },
  ) {
    this.#unary = unary;
    this.principal = principal;
    this.http = request;
    this.#clock = clock;
    this.#audit = audit;
    this.#messageBytesMax = messageBytesMax;
    this.#end = new CallDeadline(request.signal);
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  timeoutMs(): number | undefined {
    return this.#deadlineMs === undefined ? undefined : this.#deadlineMs - this.#clock.monotonicMs();
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
    const timeoutMs = readTimeoutMs(timeout, this.#unary.msMax);
    if (timeout !== undefined) this.#deadlineMs = this.#clock.monotonicMs() + timeoutMs;
    return this.#end.within(this.#answer(), timeoutMs);
  }

  async #answer(): Promise<Uint8Array> {
    const body = await this.http.readBody(prefixBytes + this.#messageBytesMax);
    // If the call ended while its body was read, no caller waits for the work.
    this.signal.throwIfAborted();
    const { method, work } = this.#unary;
    const request = messageIn(method.input, readMessage(wholeBody(body, this.#messageBytesMax)));
    this.#authorize(request);
    this.#end.begin();
    return frameWith(method.output, await work(request, this));
  }

  #authorize(request: Message): void {
    try {
      authorizeService(this.principal, request);
    } catch (thrown) {
      const refused = { call: this, refusal: refusalOfWork(thrown) };
      this.#audit.unauthorized(this.#unary.method, request, refused);
      throw thrown;
    }
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
