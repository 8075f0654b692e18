/**
 * The body of a streamed answer: each message as one text in the form that the caller prefers, then
 * the end or the refusal.
 */

import type { Message } from "@bufbuild/protobuf";
import { type EncodedResponse, type StreamForm, streamForms, streamTypes } from "#transcode/encode.ts";
import { type HttpRequest, startingWith, unlessLate, untilEnded } from "../http/handler.ts";
import { preferredType } from "../http/headers.ts";
import type { Outcomes } from "../http/outcomes.ts";
import { refusalJson } from "../http/refusal-response.ts";
import { fail, refusalFrom } from "../refusal/refusal.ts";

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
 * refusal is written into the stream. The body counts and logs its outcome once: the success, the
 * refusal, or CANCELLED if it is returned early. The messages end when the caller is gone, and
 * with the body.
 */
export async function streamAnswer(
  messages: AsyncIterable<Message>,
  parts: StreamParts,
): Promise<AsyncIterable<Uint8Array>> {
  const texts = textsOf(messages, parts);
  const first = texts.next();
  await first;
  return startingWith(first, texts);
}

async function* textsOf(
  messages: AsyncIterable<Message>,
  { request, outcomes, encode, form, quietMs }: StreamParts,
): AsyncGenerator<Uint8Array, void> {
  const { signal } = request;
  let hasBegun = false;
  let isLeft = true;
  try {
    for await (const message of withPauses(untilEnded(messages, signal), quietMs)) {
      hasBegun = true;
      request.isStream = true;
      yield Buffer.from(message === undefined ? form.quiet : form.message(encode(message)));
    }
    isLeft = false;
    outcomes.succeeded("rest", request);
    yield Buffer.from(form.end);
  } catch (thrown) {
    isLeft = false;
    if (!hasBegun) throw thrown;
    const refusal = refusalFrom(thrown);
    outcomes.refused(refusal, "rest", request);
    yield Buffer.from(form.fault(refusalJson(refusal, request.requestId)));
  } finally {
    if (isLeft) outcomes.refused(signal.aborted ? signal.reason : fail("CANCELLED"), "rest", request);
  }
}

/** The same messages, and undefined after each silence of so many milliseconds. */
async function* withPauses<T>(messages: AsyncGenerator<T>, quietMs: number): AsyncGenerator<T | undefined> {
  try {
    for (let next = messages.next(); ; ) {
      const come = await unlessLate(next, quietMs);
      if (come?.done) return;
      yield come?.value;
      if (come !== undefined) next = messages.next();
    }
  } finally {
    await messages.return(undefined);
  }
}
