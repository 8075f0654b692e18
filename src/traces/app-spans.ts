/**
 * A span for each call of an app: from the call to the end of the app's output. What it says of the
 * call is the words of the backend's own kind.
 */

import {
  context,
  isSpanContextValid,
  type Span,
  SpanKind,
  type SpanOptions,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { TraceContext } from "../http/trace-context.ts";
import type { AppRunner } from "../run/app-runner.ts";
import type { CallTrace, Run, Runner, StreamRunner } from "../run/runner.ts";
import { endFailed, endingWith, endSpan, guarded, iteratedIn, startGuarded } from "./work-span.ts";

/** The same runner, with a span for each call of an app. The app gets the span as its parent. */
export function traceRuns(runner: Pick<AppRunner, "run" | "traceOf">, tracer: Tracer): Runner {
  return (run) => {
    const begun = begin(tracer, run, traceOf(runner, run, false));
    if (begun === undefined) return runner.run(run);
    return endingWith(begun.span, () => inSpan(begun.span, () => runner.run(begun.run)));
  };
}

/** The same for streams: the span ends with the app's output. */
export function traceStreams(runner: Pick<AppRunner, "stream" | "traceOf">, tracer: Tracer): StreamRunner {
  return async function* (run) {
    const begun = begin(tracer, run, traceOf(runner, run, true));
    if (begun === undefined) return yield* runner.stream(run);
    const { span } = begun;
    let end = () => endSpan(span);
    try {
      yield* iteratedIn(trace.setSpan(context.active(), span), runner.stream(begun.run));
    } catch (thrown) {
      end = () => endFailed(span, thrown);
      throw thrown;
    } finally {
      end();
    }
  };
}

/** Undefined for an app that is no server, and for a run that belongs to no request. */
function traceOf(runner: Pick<AppRunner, "traceOf">, { app }: Run, isStreamed: boolean) {
  return trace.getActiveSpan() === undefined ? undefined : runner.traceOf(app.backend, isStreamed);
}

/** Starts the span, and returns it with the run as the app gets it. */
function begin(tracer: Tracer, run: Run, call: CallTrace | undefined): { span: Span; run: Run } | undefined {
  if (call === undefined) return undefined;
  const { runId, teamId, keyId, app, text, input, reservation, requestId, isBackground = false } = run;
  const attributes = {
    ...call.attributes,
    "keyrun.app": app.id,
    "keyrun.team": teamId,
    "keyrun.run_id": runId,
  };
  const span = startGuarded(tracer, call.spanName, {
    kind: SpanKind.CLIENT,
    attributes,
    ...(isBackground && linkedToRequest()),
  });
  if (span === undefined) return undefined;
  const traced: Run = {
    runId,
    teamId,
    keyId,
    app,
    text,
    input,
    reservation,
    isBackground,
    requestId,
    traceContext: contextForApp(span),
    callerMsLeft: () => run.callerMsLeft?.(),
    signal: run.signal,
    answered: (status) => guarded(() => void span.setAttribute(call.statusAttribute, status)),
  };
  return { span, run: traced };
}

/** A run in the background outlives its request: it begins a trace, with a link to that span. */
function linkedToRequest(): Pick<SpanOptions, "root" | "links"> {
  const request = trace.getActiveSpan();
  return { root: true, links: request === undefined ? [] : [{ context: request.spanContext() }] };
}

/** What an app gets, so that its spans are children of this one. */
function contextForApp(span: Span): TraceContext | undefined {
  const own = span.spanContext();
  if (!isSpanContextValid(own)) return undefined;
  const flags = (own.traceFlags & TraceFlags.SAMPLED) === 0 ? "00" : "01";
  const traceparent = `00-${own.traceId}-${own.spanId}-${flags}`;
  const tracestate = own.traceState?.serialize();
  return tracestate ? { traceparent, tracestate } : { traceparent };
}

function inSpan<T>(span: Span, work: () => T): T {
  return context.with(trace.setSpan(context.active(), span), work);
}
