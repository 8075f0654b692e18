import type { Message } from "@bufbuild/protobuf";
import type { HttpRequest } from "../http/handler.ts";
import type { Outcomes } from "../http/outcomes.ts";
import { untilEnded } from "../http/until-ended.ts";
import { fail, Refusal, refusalFrom } from "../refusal/refusal.ts";
import type { EncodedResponse } from "../transcode/encode.ts";
import { messageLine, refusalLine } from "./message-lines.ts";

export interface StreamParts {
  readonly request: HttpRequest;
  readonly outcomes: Outcomes;
  readonly encode: (message: Message) => EncodedResponse;
}

type Lines = AsyncIterator<Uint8Array, undefined>;

/**
 * Returns the body of a streamed response as soon as the first message is there, or the end.
 * Rejects with what the stream throws before that: the caller then gets a whole refusal, and
 * nothing is counted here. A later refusal is the last line. The body counts and logs its outcome
 * once: the success, the refusal, or CANCELLED if it is returned early. The messages end with the
 * request's signal, and with the body.
 */
export async function streamLines(
  messages: AsyncIterable<Message>,
  parts: StreamParts,
): Promise<AsyncIterable<Uint8Array>> {
  const lines = linesOf(messages, parts);
  // Taken here: a generator that has not begun would skip its `finally` when it is returned.
  return startingWith(await lines.next(), lines);
}

async function* linesOf(
  messages: AsyncIterable<Message>,
  { request, outcomes, encode }: StreamParts,
): AsyncGenerator<Uint8Array, undefined> {
  const signal = request.signal();
  let hasBegun = false;
  let isSettled = false;
  try {
    for await (const message of untilEnded(messages, signal)) {
      const line = messageLine(encode(message));
      hasBegun = true;
      yield line;
    }
    isSettled = true;
    outcomes.succeeded("rest", request);
  } catch (thrown) {
    isSettled = true;
    if (!hasBegun) throw thrown;
    const refusal = refusalFrom(thrown);
    outcomes.refused(refusal, "rest", request);
    yield refusalLine(refusal, request.requestId);
  } finally {
    if (!isSettled) outcomes.refused(endOf(signal), "rest", request);
  }
}

/** The reason why nobody takes the rest. */
function endOf({ reason }: AbortSignal): Refusal {
  return reason instanceof Refusal ? reason : fail("CANCELLED");
}

function startingWith(
  first: IteratorResult<Uint8Array, undefined>,
  rest: AsyncGenerator<Uint8Array, undefined>,
): AsyncIterable<Uint8Array> {
  let waiting: typeof first | undefined = first;
  const lines: Lines = {
    next() {
      const line = waiting;
      waiting = undefined;
      return line ? Promise.resolve(line) : rest.next();
    },
    return: () => rest.return(undefined),
  };
  return { [Symbol.asyncIterator]: () => lines };
}
