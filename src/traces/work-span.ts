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
import { guarded, startGuarded } from "./guarded-span.ts";

export interface WorkSpan {
  readonly name: string;
  readonly kind?: SpanKind;
  readonly attributes: Attributes;
  readonly links?: readonly Link[];
}

/**
 * Does work within a span, a child of the active one. Work for no request gets no span, nor does
 * work for which the SDK starts none. The result is that of the work, and so is an error.
 */
export function inWorkSpan<T>(
  tracer: Tracer,
  { name, kind = SpanKind.CLIENT, attributes, links = [] }: WorkSpan,
  work: (span: Span | undefined) => T,
): T {
  if (trace.getActiveSpan() === undefined) return work(undefined);
  const span = startGuarded(tracer, name, { kind, attributes, links: [...links] });
  if (span === undefined) return work(undefined);
  return endingWith(span, () => context.with(trace.setSpan(context.active(), span), () => work(span)));
}

/** Does the work, and ends the span with it: for a promise, when that is settled. */
export function endingWith<T>(span: Span, work: () => T): T {
  let result: T;
  try {
    result = work();
  } catch (thrown) {
    endFailed(span, thrown);
    throw thrown;
  }
  if (result instanceof Promise) {
    result.then(
      () => endSpan(span),
      (thrown: unknown) => endFailed(span, thrown),
    );
  } else endSpan(span);
  return result;
}

export function endSpan(span: Span): void {
  guarded(() => span.end());
}

/** Ends the span as failed. The message of an error may quote a text, so only its kind is told. */
export function endFailed(span: Span, thrown: unknown): void {
  guarded(() => {
    span.setAttribute("error.type", errorType(thrown));
    span.setStatus({ code: SpanStatusCode.ERROR });
  });
  endSpan(span);
}

function errorType(thrown: unknown): string {
  if (thrown instanceof Refusal) return thrown.reason.toLowerCase();
  return thrown instanceof Error ? thrown.name : "_OTHER";
}
