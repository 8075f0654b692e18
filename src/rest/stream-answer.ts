// The body of a streamed answer: each message as one text in the form that the caller prefers, then
// the end or the refusal.

import type { Message } from "@bufbuild/protobuf";
import { type EncodedResponse, type StreamForm, streamForms, streamTypes } from "#transcode/encode.ts";
import type { HttpRequest } from "../http/handler.ts";
import { preferredType } from "../http/headers.ts";
import type { Outcomes } from "../http/outcomes.ts";
import { refusalJson } from "../http/refusal-response.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";

export interface StreamParts {
  readonly request: HttpRequest;
  readonly outcomes: Outcomes;
  readonly encode: (message: Message) => EncodedResponse;
  readonly form: StreamForm;
  /** After so much silence the form's sign of life is sent. */
  readonly quietMs: number;
}

/** The form that the caller prefers. Server-sent events if it names neither. */
export function streamFormFor(accept: string | undefined): StreamForm {
  return streamForms[preferredType(accept, streamTypes)];
}

/**
 * Returns the body of a streamed response as soon as the first message is there, or the end; or
 * after `quietMs`, because proxies close a connection that is silent. Rejects with what the stream
 * throws before that: the caller then gets a whole refusal, and nothing is counted here. A later
 * refusal is told in the stream. The body counts and logs its outcome once: the success, the
 * refusal, or CANCELLED if it is returned early. The messages end when the caller is gone, and
 * with the body.
 */
export async function streamAnswer(
  messages: AsyncIterable<Message>,
  parts: StreamParts,
): Promise<AsyncIterable<Uint8Array>> {
  const texts = new StreamTexts(messages, parts);
  let waiting: Text | undefined = await texts.next();
  const body: AsyncIterator<Uint8Array, undefined> = {
    next() {
      const text = waiting;
      waiting = undefined;
      return text ? Promise.resolve(text) : texts.next();
    },
    return: () => texts.return(),
  };
  return { [Symbol.asyncIterator]: () => body };
}

type Text = IteratorResult<Uint8Array, undefined>;
type Next = IteratorResult<Message, undefined>;

const over: Text = { done: true, value: undefined };

/**
 * The texts of a stream. Not a generator, because that would keep a message in memory while its
 * reader is slow, and could not be returned while it waits for the next.
 */
class StreamTexts {
  readonly #messages: AsyncIterator<Message, undefined>;
  readonly #parts: StreamParts;
  readonly #quiet: NodeJS.Timeout;
  #next: Promise<Next> | undefined;
  #wake: PromiseWithResolvers<Next | "quiet"> | undefined;
  #hasBegun = false;
  #isOver = false;

  constructor(messages: AsyncIterable<Message>, parts: StreamParts) {
    this.#messages = messages[Symbol.asyncIterator]();
    this.#parts = parts;
    const { signal } = parts.request;
    signal.addEventListener("abort", () => this.#wake?.reject(signal.reason), { once: true });
    this.#quiet = setTimeout(() => this.#wake?.resolve("quiet"), parts.quietMs);
  }

  async next(): Promise<Text> {
    const { request, outcomes, form, encode } = this.#parts;
    if (this.#isOver) return over;
    try {
      const come = await this.#come();
      if (come === "quiet") return this.#begun(form.quiet);
      if (!come.done) return this.#begun(form.message(encode(come.value)));
      this.#end();
      outcomes.succeeded("rest", request);
      return textOf(form.end);
    } catch (thrown) {
      // It was returned meanwhile.
      if (this.#isOver) return over;
      this.#end();
      if (!this.#hasBegun) throw thrown;
      const refusal = refusalFrom(thrown);
      outcomes.refused(refusal, "rest", request);
      return textOf(form.fault(refusalJson(refusal, request.requestId)));
    }
  }

  async return(): Promise<Text> {
    if (this.#isOver) return over;
    this.#end();
    const { signal } = this.#parts.request;
    const refusal: Refusal = signal.aborted ? signal.reason : fail("CANCELLED");
    this.#wake?.reject(refusal);
    this.#parts.outcomes.refused(refusal, "rest", this.#parts.request);
    return over;
  }

  #begun(text: string): Text {
    this.#hasBegun = true;
    this.#parts.request.isStream = true;
    return textOf(text);
  }

  /** Waits for the next message, the end of the request, or the end of the silence. */
  async #come(): Promise<Next | "quiet"> {
    this.#parts.request.signal.throwIfAborted();
    const wake = Promise.withResolvers<Next | "quiet">();
    this.#wake = wake;
    this.#next ??= this.#messages.next();
    this.#next.then(wake.resolve, wake.reject);
    this.#quiet.refresh();
    const come = await wake.promise;
    if (come !== "quiet") this.#next = undefined;
    return come;
  }

  /** Not awaited: a stream that waits for its caller ends only after the caller has left. */
  #end(): void {
    this.#isOver = true;
    clearTimeout(this.#quiet);
    this.#messages.return?.().catch(() => {});
  }
}

function textOf(text: string): Text {
  return { done: false, value: Buffer.from(text) };
}
