import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type Message,
  toBinary,
} from "@bufbuild/protobuf";
import type { Call, Principal } from "../../auth/principal.ts";
import type { BodyOutcome, HttpRequest } from "../../edge/http.ts";
import { wholeBody } from "../../edge/whole-body.ts";
import { fail } from "../../error.ts";
import { CallEnd } from "../call-end.ts";
import type { Work } from "../served.ts";
import { frameOf, prefixBytes, readMessage } from "./frame.ts";
import { readTimeoutMs } from "./timeout.ts";

/** A method and what does its work. */
export interface UnaryMethod {
  readonly method: DescMethodUnary;
  readonly work: Work;
}

/** A unary call that has passed the gate: from its body to the frame that answers it, under its deadline. */
export class UnaryCall implements Call {
  readonly principal: Principal;
  readonly #request: HttpRequest;
  readonly #unary: UnaryMethod;
  readonly #messageBytesMax: number;
  readonly #end: CallEnd;

  constructor(
    unary: UnaryMethod,
    {
      request,
      principal,
      messageBytesMax,
    }: { request: HttpRequest; principal: Principal; messageBytesMax: number },
  ) {
    this.#unary = unary;
    this.#request = request;
    this.principal = principal;
    this.#messageBytesMax = messageBytesMax;
    this.#end = new CallEnd(() => request.signal());
  }

  get requestId(): string {
    return this.#request.requestId;
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /**
   * The answer's frame, without a promise where nothing has to be waited for. Throws or rejects with what the call is
   * refused for.
   */
  run(): Uint8Array | Promise<Uint8Array> {
    const timeoutMs = readTimeoutMs(this.#request.header("grpc-timeout"));
    const body = this.#request.readBody(prefixBytes + this.#messageBytesMax);
    const frame = body instanceof Promise ? this.#answerLater(body) : this.#answer(body);
    return frame instanceof Promise ? this.#end.within(frame, timeoutMs) : frame;
  }

  async #answerLater(body: Promise<BodyOutcome>): Promise<Uint8Array> {
    return this.#answer(await body);
  }

  #answer(body: BodyOutcome): Uint8Array | Promise<Uint8Array> {
    // The body of a call that was answered meanwhile: nobody waits for its work.
    if (this.#end.reason) throw this.#end.reason;
    const { method, work } = this.#unary;
    const request = messageIn(method.input, readMessage(wholeBody(body, this.#messageBytesMax)));
    this.#end.begin();
    const answer = work(request, this);
    if (!(answer instanceof Promise)) return frameWith(method.output, answer);
    // While the body is awaited its own outcome tells that the caller is gone; from here on nothing else would.
    this.#end.heedCaller();
    return this.#frameLater(answer);
  }

  async #frameLater(answer: Promise<unknown>): Promise<Uint8Array> {
    return frameWith(this.#unary.method.output, await answer);
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

/** The method's own promise is that it answers with its output message, or what one is made of. */
function frameWith(desc: DescMessage, answer: unknown): Uint8Array {
  return frameOf(toBinary(desc, create(desc, answer as Message)));
}
