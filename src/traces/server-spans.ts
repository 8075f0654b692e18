import {
  type Attributes,
  type Context,
  context,
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { HttpHandler, Mount } from "../http/handler.ts";
import { httpMethod, type Outcomes } from "../http/outcomes.ts";
import { codeName } from "../http/refusal-response.ts";
import { headerOf, pathOf, type RequestHead } from "../http/request-head.ts";
import { isProbe, type NameRoute, type RequestNotes, type RequestObserver } from "../http/request-notes.ts";
import { readTraceContext, type TraceContext } from "../http/trace-context.ts";
import type { Redact } from "../log/redaction.ts";
import { rowOf } from "../refusal/reasons.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { iteratedIn, traceBounds } from "./work-span.ts";

/**
 * A span for each request, from its head to the end of its response: that of a stream ends with the
 * stream. Probes get none. The names are those of OpenTelemetry's semantic conventions. Of what the
 * caller wrote, a span has the path without its query, and the host, each cut like the log.
 */
export function createServerSpans({ tracer, nameRoute, redact }: ServerSpansParts): ServerSpans {
  const contexts = new WeakMap<RequestNotes, Context>();
  const mounts = new WeakMap<Mount, Mount>();
  const contextOf = (notes: RequestNotes | undefined) => notes && contexts.get(notes);

  function inSpan(handler: HttpHandler): HttpHandler {
    return async (request) => {
      const own = contextOf(request.notes);
      if (own === undefined) return await handler(request);
      const answer = await context.with(own, () => handler(request));
      // The body of a stream does its work in this context, too.
      if ("refusal" in answer || !isStream(answer.body)) return answer;
      return { ...answer, body: iteratedIn(own, answer.body) };
    };
  }

  return {
    begun(notes) {
      const { head } = notes;
      const route = nameRoute(head.target);
      if (isProbe(route)) return;
      const parent = contextOfCaller(readTraceContext({ header: (name) => headerOf(head, name) }));
      const attributes = attributesOfHead(head, route, redact);
      const span = tracer.startSpan(nameOf(head, route), { kind: SpanKind.SERVER, attributes }, parent);
      const own = span.spanContext();
      // An SDK whose API is older than this one can't be used, and its spans have no ids.
      if (!isSpanContextValid(own)) return;
      notes.traceId = own.traceId;
      contexts.set(notes, trace.setSpan(parent, span));
    },
    ended(notes, status) {
      const own = contextOf(notes);
      const span = own && trace.getSpan(own);
      if (!span) return;
      span.setAttributes(attributesOfEnd(notes, status, redact));
      if (typeof notes.outcome === "object") noteFault(span, notes, notes.outcome);
      span.end();
    },
    mount(mount) {
      const known = mounts.get(mount);
      if (known !== undefined) return known;
      const traced = { ...mount, handler: inSpan(mount.handler) };
      mounts.set(mount, traced);
      return traced;
    },
    outcomes: ({ succeeded, refused }) => ({
      succeeded,
      refused(refusal, entry, asked) {
        const own = contextOf(asked.notes);
        if (own === undefined) refused(refusal, entry, asked);
        else context.with(own, () => refused(refusal, entry, asked));
      },
    }),
  };
}

export interface ServerSpans extends RequestObserver {
  /** The same mount, with each request handled in the context of its span. */
  mount(mount: Mount): Mount;
  /** The same outcomes, with their log lines in the context of the span. */
  outcomes(outcomes: Outcomes): Outcomes;
}

export interface ServerSpansParts {
  readonly tracer: Tracer;
  readonly nameRoute: NameRoute;
  /** Cuts secrets from a text of the caller. */
  readonly redact: Redact;
}

/** The context in which a request begins: that of its caller, if the caller sent one. */
function contextOfCaller(caller: TraceContext | undefined): Context {
  if (caller === undefined) return ROOT_CONTEXT;
  const [, traceId = "", spanId = "", flags = ""] = caller.traceparent.split("-");
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED;
  const parent = { traceId, spanId, traceFlags, isRemote: true };
  const traceState = caller.tracestate === undefined ? undefined : createTraceState(caller.tracestate);
  return trace.setSpanContext(ROOT_CONTEXT, traceState ? { ...parent, traceState } : parent);
}

const rpcRoute = /^\/((?:\w+\.)+\w+)\/(\w+)$/;

function nameOf({ method }: RequestHead, route: string | undefined): string {
  if (route === undefined) return httpMethod(method);
  return rpcRoute.test(route) ? route.slice(1) : `${httpMethod(method)} ${route}`;
}

function attributesOfHead(head: RequestHead, route: string | undefined, redact: Redact): Attributes {
  const { pathCharactersMax, pathCharactersReadMax } = traceBounds;
  const path = redact(pathOf(head.target), pathCharactersReadMax).slice(0, pathCharactersMax);
  const [, service, method] = rpcRoute.exec(route ?? "") ?? [];
  const host = hostOf(head);
  return {
    "http.request.method": httpMethod(head.method),
    "url.path": path,
    "url.scheme": headerOf(head, ":scheme") === "https" ? "https" : "http",
    "network.protocol.version": head.httpVersion,
    ...(route !== undefined && { "http.route": route }),
    ...(host !== undefined && { "server.address": redact(host) }),
    ...(service !== undefined && { "rpc.service": service, "rpc.method": method }),
  };
}

/** The host that the caller named, without its port, if it can be the name of a host. */
function hostOf(head: RequestHead): string | undefined {
  const sent = headerOf(head, "host") ?? headerOf(head, ":authority") ?? "";
  return /^([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/.exec(sent)?.[1];
}

function attributesOfEnd(
  { entry, request, keyId, teamId, appId, outcome, head }: RequestNotes,
  status: number | undefined,
  redact: Redact,
): Attributes {
  const code = outcome === "OK" ? 0 : outcome && rowOf(outcome.reason).code;
  return {
    "http.response.status_code": status,
    "client.address": request?.address ?? head.peer,
    "rpc.system": entry === "rest" ? undefined : entry === "grpc" ? "grpc" : "connect_rpc",
    "rpc.grpc.status_code": entry === "grpc" ? code : undefined,
    "rpc.connect_rpc.error_code": entry === "connect" && code ? codeName(code).toLowerCase() : undefined,
    "keyrun.request_id": request && redact(request.requestId),
    "keyrun.team": teamId,
    "keyrun.key_id": keyId,
    "keyrun.app": appId,
  };
}

/** What the caller did wrong is no fault of the server, so the status of the span stays unset. */
function noteFault(span: Span, { entry }: RequestNotes, { reason }: Refusal): void {
  span.setAttribute("error.type", reason.toLowerCase());
  const { code, httpStatus } = rowOf(reason);
  const isFault = entry === "grpc" ? grpcFaults.has(code) : httpStatus >= 500;
  if (isFault) span.setStatus({ code: SpanStatusCode.ERROR });
}

/**
 * UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS: these are faults by
 * the conventions.
 */
const grpcFaults: ReadonlySet<number> = new Set([2, 4, 12, 13, 14, 15]);

function isStream(body: object | string): body is AsyncIterable<Uint8Array> {
  return typeof body === "object" && Symbol.asyncIterator in body;
}
