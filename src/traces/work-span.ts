/**
 * Spans of the work that a request causes: calls of the store, of Redis and of apps. Code of the
 * operator's SDK runs here, and whatever it throws fails no request.
 */

import {
  type Attributes,
  type Context,
  context,
  diag,
  type Link,
  type Span,
  SpanKind,
  type SpanOptions,
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
 * Does work within a span, a child of the active one. Work for no request gets no span, nor does
 * work for which the SDK starts none. The result is that of the work, and so is an error.
 */
export async function inWorkSpan<T>(
  tracer: Tracer,
  { name, kind = SpanKind.CLIENT, attributes, links = [] }: WorkSpan,
  work: (span: Span | undefined) => Promise<T>,
): Promise<T> {
  if (trace.getActiveSpan() === undefined) return await work(undefined);
  const span = startGuarded(tracer, name, { kind, attributes, links: [...links] });
  if (span === undefined) return await work(undefined);
  return await endingWith(span, () => context.with(trace.setSpan(context.active(), span), () => work(span)));
}

/** Does the work, and ends the span with it. */
export async function endingWith<T>(span: Span, work: () => Promise<T>): Promise<T> {
  try {
    const result = await work();
    endSpan(span);
    return result;
  } catch (thrown) {
    endFailed(span, thrown);
    throw thrown;
  }
}

/** The same items, with the work that makes each of them in this context. */
export function iteratedIn<Item>(own: Context, items: AsyncIterable<Item>): AsyncIterable<Item, void> {
  const done = async () => ({ done: true, value: undefined }) as const;
  return {
    [Symbol.asyncIterator]() {
      const iterator = items[Symbol.asyncIterator]();
      return {
        next: () => context.with(own, () => iterator.next()),
        return: () => context.with(own, () => iterator.return?.() ?? done()),
      };
    },
  };
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

/**
 * Starts a span; undefined where the SDK throws. Samplers and span processors are the operator's
 * code: what they throw fails no request, and is told to the logger of OpenTelemetry alone.
 */
export function startGuarded(tracer: Tracer, name: string, options: SpanOptions): Span | undefined {
  try {
    return tracer.startSpan(name, options);
  } catch (thrown) {
    diag.error("a span could not be started", thrown);
    return undefined;
  }
}

/** Does what may run code of the SDK: it ends a span, or adds to it. Never throws. */
export function guarded(work: () => void): void {
  try {
    work();
  } catch (thrown) {
    diag.error("a span could not be written", thrown);
  }
}

/** The bounds of traces. Those of what waits for the exporter are the SDK's. */
export const traceBounds = {
  /** Of a path in a span. */
  pathCharactersMax: 256,
  /** Of a path that is read for a span: more than is shown, because redaction makes it shorter. */
  pathCharactersReadMax: 1_024,
  /** Requests that one span names beside its parent. The SDK keeps no more. */
  linksMax: 128,
  /** How long the end of the process waits for the last spans to be exported. */
  flushMsMax: 2_000,
} as const;
