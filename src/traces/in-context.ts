import { type Context, context } from "@opentelemetry/api";
import type { Answer } from "../http/handler.ts";

/** The same answer. A streamed body does its work in this context, too. */
export function inContext(own: Context, answer: Answer): Answer {
  if ("refusal" in answer || !isStream(answer.body)) return answer;
  return { ...answer, body: streamIn(own, answer.body) };
}

function isStream(body: object | string): body is AsyncIterable<Uint8Array> {
  return typeof body === "object" && Symbol.asyncIterator in body;
}

function streamIn(own: Context, body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const chunks = body[Symbol.asyncIterator]();
      const done = async () => ({ done: true, value: undefined }) as const;
      return {
        next: () => context.with(own, () => chunks.next()),
        return: () => context.with(own, () => chunks.return?.() ?? done()),
      };
    },
  };
}
