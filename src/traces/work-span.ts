import {
  type Attributes,
  context,
  type Link,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { Refusal } from "../refusal/refusal.ts";

export interface WorkSpan {
  readonly name: string;
  readonly kind?: SpanKind;
  readonly attributes: Attributes;
  readonly links?: readonly Link[];
}

/**
 * Does work within a span, a child of the active one. Work for no request gets no span. The result
 * is that of the work, and so is an error.
 */
export function inWorkSpan<T>(
  tracer: Tracer,
  { name, kind = SpanKind.CLIENT, attributes, links = [] }: WorkSpan,
  work: (span: Span | undefined) => T,
): T {
  if (trace.getActiveSpan() === undefined) return work(undefined);
  const span = tracer.startSpan(name, { kind, attributes, links: [...links] });
  try {
    const result = context.with(trace.setSpan(context.active(), span), () => work(span));
    if (result instanceof Promise) {
      result.then(
        () => span.end(),
        (thrown: unknown) => endFailed(span, thrown),
      );
    } else span.end();
    return result;
  } catch (thrown) {
    endFailed(span, thrown);
    throw thrown;
  }
}

/** Ends the span as failed. The message of an error may quote a text, so only its kind is told. */
export function endFailed(span: Span, thrown: unknown): void {
  span.setAttribute("error.type", errorType(thrown));
  span.setStatus({ code: SpanStatusCode.ERROR });
  span.end();
}

function errorType(thrown: unknown): string {
  if (thrown instanceof Refusal) return thrown.reason.toLowerCase();
  return thrown instanceof Error ? thrown.name : "_OTHER";
}
