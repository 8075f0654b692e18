import { type Context, diag, type Span, type SpanOptions, type Tracer } from "@opentelemetry/api";

/**
 * Starts a span; undefined where the SDK throws. Samplers and span processors are the operator's
 * code: what they throw fails no request, and is told to the logger of OpenTelemetry alone.
 */
export function startGuarded(
  tracer: Tracer,
  name: string,
  options: SpanOptions,
  parent?: Context,
): Span | undefined {
  try {
    return tracer.startSpan(name, options, parent);
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
