import { mayHoldSecret } from "../log/redaction.ts";
import type { HttpRequest } from "./handler.ts";

/** The headers of W3C Trace Context, in the form in which they are sent on. */
export interface TraceContext {
  /** Version 00: the ids of the trace and of the calling span, and the flags. */
  readonly traceparent: string;
  /** What tracing systems keep beside it; absent if there is none. */
  readonly tracestate?: string;
}

/** What a caller may send. More is dropped. */
export const traceContextBounds = {
  /** A later version may have more fields than the first. */
  traceparentCharactersMax: 128,
  /** As much as W3C asks everybody to pass on. */
  tracestateCharactersMax: 512,
  /** W3C allows no more. */
  tracestateMembersMax: 32,
} as const;

/**
 * Reads the trace context of a request. Undefined if there is none, or none that W3C allows: a
 * fault in it never refuses a request. `tracestate` alone is dropped if only that is at fault, or
 * if it may hold the secret of a key.
 */
export function readTraceContext(request: Pick<HttpRequest, "header">): TraceContext | undefined {
  const sent = request.header("traceparent");
  const traceparent = sent === undefined ? undefined : readTraceparent(sent);
  if (traceparent === undefined) return undefined;
  const tracestate = readTracestate(request.header("tracestate"));
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate };
}

/** Names and values, alternating, of the headers that carry the context on. */
export function traceHeaders(context: TraceContext | undefined): readonly string[] {
  if (context === undefined) return none;
  const { traceparent, tracestate } = context;
  const parent = ["traceparent", traceparent];
  return tracestate === undefined ? parent : [...parent, "tracestate", tracestate];
}

const none: readonly string[] = [];

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const noTrace = "0".repeat(32);
const noSpan = "0".repeat(16);
const first = "00";

/** A later version is read as the first one, and is passed on as that. */
function readTraceparent(sent: string): string | undefined {
  if (sent.length > traceContextBounds.traceparentCharactersMax) return undefined;
  const [, version, traceId, spanId, flags, more] = form.exec(sent) ?? [];
  if (version === undefined || version === "ff" || (version === first && more !== undefined))
    return undefined;
  if (traceId === noTrace || spanId === noSpan) return undefined;
  return version === first ? sent : `${first}-${traceId}-${spanId}-${flags}`;
}

const member =
  /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

function readTracestate(sent: string | undefined): string | undefined {
  if (sent === undefined || sent.length > traceContextBounds.tracestateCharactersMax) return undefined;
  const members = sent.split(",").map((each) => each.trim());
  const named = members.filter((each) => each !== "");
  const names = new Set(named.map((each) => each.slice(0, each.indexOf("="))));
  const isValid = named.every((each) => member.test(each)) && names.size === named.length;
  const isInBounds = named.length > 0 && named.length <= traceContextBounds.tracestateMembersMax;
  return isValid && isInBounds && !mayHoldSecret(sent) ? named.join(",") : undefined;
}
