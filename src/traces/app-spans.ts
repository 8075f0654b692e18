import { type Attributes, context, type Span, SpanKind, type Tracer, trace } from "@opentelemetry/api";
import type { BackendRecord } from "../apps/app-store.ts";
import { type PieceIterator, type Run, type Runner, type StreamRunner, takeText } from "../run/runner.ts";
import { contextForApp } from "./carried-context.ts";
import { guarded, startGuarded } from "./guarded-span.ts";
import { endFailed, endingWith, endSpan } from "./work-span.ts";

/** The same runner, with a span for each call of an app. The app gets the span as its parent. */
export function traceRuns(run: Runner, tracer: Tracer): Runner {
  return (order) => {
    const span = startSpan(tracer, order, "Run");
    if (span === undefined) return run(order);
    return endingWith(span, () =>
      context.with(trace.setSpan(context.active(), span), () => run(traced(order, span))),
    );
  };
}

/** The same for streams: the span ends with the app's output. */
export function traceStreams(stream: StreamRunner, tracer: Tracer): StreamRunner {
  return async (order) => {
    const span = startSpan(tracer, order, "StreamRun");
    if (span === undefined) return stream(order);
    try {
      const pieces = await context.with(trace.setSpan(context.active(), span), () =>
        stream(traced(order, span)),
      );
      return { [Symbol.asyncIterator]: () => endingAfter(pieces[Symbol.asyncIterator](), span) };
    } catch (thrown) {
      endFailed(span, thrown);
      throw thrown;
    }
  };
}

function endingAfter(pieces: PieceIterator, span: Span): PieceIterator {
  return {
    takeShort: () => pieces.takeShort(),
    async next() {
      try {
        const next = await pieces.next();
        if (next.done) endSpan(span);
        return next;
      } catch (thrown) {
        endFailed(span, thrown);
        throw thrown;
      }
    },
    async return() {
      endSpan(span);
      return (await pieces.return?.()) ?? { done: true, value: undefined };
    },
  };
}

/** Undefined for an app that is no server, and for a run that belongs to no request. */
function startSpan(tracer: Tracer, { app, teamId, runId }: Run, method: string): Span | undefined {
  const { backend } = app;
  if (backend.kind === "echo" || trace.getActiveSpan() === undefined) return undefined;
  const attributes = {
    ...serverOf(backend, method),
    ...{ "keyrun.app": app.id, "keyrun.team": teamId, "keyrun.run_id": runId },
  };
  const name = backend.kind === "http" ? "POST" : `${appService}/${method}`;
  return startGuarded(tracer, name, { kind: SpanKind.CLIENT, attributes });
}

const appService = "keyrun.v1.AppBackendService";

/** Not the whole URL: its path and query may hold a secret of the app. */
function serverOf(backend: Exclude<BackendRecord, { kind: "echo" }>, method: string): Attributes {
  if (backend.kind === "http") {
    const { hostname, port, protocol } = new URL(backend.url);
    const portOfServer = Number(port) || (protocol === "https:" ? 443 : 80);
    return { "server.address": hostname, "server.port": portOfServer, "http.request.method": "POST" };
  }
  // A target is no part of a URL: not every name that it may have is a host to `URL`.
  const { target } = backend;
  const colon = target.lastIndexOf(":");
  return {
    "server.address": target.slice(0, colon),
    "server.port": Number(target.slice(colon + 1)),
    ...{ "rpc.system": "grpc", "rpc.service": appService, "rpc.method": method },
  };
}

function traced(run: Run, span: Span): Run {
  const { runId, teamId, keyId, app, held, requestId } = run;
  const attribute = app.backend.kind === "http" ? "http.response.status_code" : "rpc.grpc.status_code";
  return {
    ...{ runId, teamId, keyId, app, held, requestId, text: takeText(run) },
    traceContext: contextForApp(span),
    whenGone: (end) => run.whenGone(end),
    answered: (status) => guarded(() => void span.setAttribute(attribute, status)),
  };
}
