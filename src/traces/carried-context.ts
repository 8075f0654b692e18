import {
  type Context,
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  type Span,
  type TraceState,
  trace,
} from "@opentelemetry/api";
import type { TraceContext } from "../http/trace-context.ts";

/** The context in which a request begins: that of its caller, if the caller sent one. */
export function contextOfCaller(caller: TraceContext | undefined): Context {
  if (caller === undefined) return ROOT_CONTEXT;
  const [, traceId = "", spanId = "", flags = ""] = caller.traceparent.split("-");
  const traceFlags = Number.parseInt(flags, 16) & sampled;
  const traceState = stateOf(caller);
  const parent = { traceId, spanId, traceFlags, isRemote: true, ...(traceState && { traceState }) };
  return trace.setSpanContext(ROOT_CONTEXT, parent);
}

/** What an app gets, so that its spans are children of this one. */
export function contextForApp(span: Span): TraceContext | undefined {
  const context = span.spanContext();
  if (!isSpanContextValid(context)) return undefined;
  const { traceId, spanId, traceFlags, traceState } = context;
  const flags = (traceFlags & sampled) === 0 ? "00" : "01";
  const traceparent = `00-${traceId}-${spanId}-${flags}`;
  const tracestate = traceState?.serialize();
  return tracestate ? { traceparent, tracestate } : { traceparent };
}

const sampled = 1;

function stateOf({ tracestate }: TraceContext): TraceState | undefined {
  return tracestate === undefined ? undefined : createTraceState(tracestate);
}
