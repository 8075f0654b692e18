import { Code } from "@connectrpc/connect";
import type { Refusal } from "../error.ts";
import { errorDetailsJson } from "../error-details.ts";
import { reasons } from "../reasons.ts";
import type { HttpResponse } from "./http.ts";

/** What an answer's form depends on, beside the refusal. */
export interface RefusalContext {
  readonly requestId: string;
  /** The caller's `Accept`, which may ask for `application/problem+json`. */
  readonly accept: string | undefined;
  /** Rate-limit headers as names and values in turn; empty where none apply. */
  readonly rateHeaders: readonly string[];
}

/**
 * A refusal as an HTTP answer: one shape for every status, that of the API clients people already use, or
 * RFC 9457 where the caller asks for it.
 */
export function refusalResponse(refusal: Refusal, context: RefusalContext): HttpResponse {
  const problem = asksForProblem(context.accept);
  const body = problem ? problemBody(refusal, context.requestId) : errorBody(refusal, context.requestId);
  return {
    status: reasons[refusal.reason].httpStatus,
    headers: [
      "Content-Type",
      problem ? "application/problem+json" : "application/json",
      "X-Request-Id",
      context.requestId,
      ...context.rateHeaders,
      ...refusalHeaders(refusal, context.rateHeaders),
    ],
    body: JSON.stringify(body),
  };
}

/** The canonical code's name: `INVALID_ARGUMENT`. */
export function codeName(code: Code): string {
  if (code === Code.Canceled) return "CANCELLED";
  return String(Code[code])
    .replace(/(?<=[a-z])(?=[A-Z])/g, "_")
    .toUpperCase();
}

/** The code as callers over HTTP read it: `invalid_api_key`. */
export function publicCode({ reason }: Refusal): string {
  return reason.toLowerCase();
}

/** Headers that the reason alone asks for. */
function refusalHeaders(refusal: Refusal, rateHeaders: readonly string[] = []): string[] {
  const headers: string[] = [];
  const { httpStatus } = reasons[refusal.reason];
  const challenge = challengeOf(refusal);
  if (challenge) headers.push("WWW-Authenticate", challenge);
  if (refusal.reason === "METHOD_NOT_ALLOWED") headers.push("Allow", refusal.metadata.allow ?? "");
  if (httpStatus === 503 && !rateHeaders.includes("Retry-After")) headers.push("Retry-After", "1");
  // What an app did once must not happen again because a client library repeats a POST on any 5xx.
  if (httpStatus === 502 || httpStatus === 504 || (httpStatus >= 500 && refusal.mayHaveRun)) {
    headers.push("X-Should-Retry", "false");
  }
  return headers;
}

/**
 * What a 401 asks for (RFC 9110, section 15.5.2), without `error` where no credential was sent at all (RFC 6750,
 * section 3); undefined for any other status.
 */
export function challengeOf({ reason }: Refusal): string | undefined {
  if (reasons[reason].httpStatus !== 401) return undefined;
  return reason === "MISSING_API_KEY" || reason === "MISSING_CREDENTIAL"
    ? 'Bearer realm="keyrun"'
    : 'Bearer realm="keyrun", error="invalid_token"';
}

function asksForProblem(accept: string | undefined): boolean {
  return accept?.toLowerCase().includes("application/problem+json") ?? false;
}

function errorBody(refusal: Refusal, requestId: string) {
  const { type, code } = reasons[refusal.reason];
  return {
    error: {
      type,
      code: publicCode(refusal),
      message: refusal.message,
      param: refusal.param,
      status: codeName(code),
      requestId,
      details: errorDetailsJson(refusal),
    },
  };
}

/** RFC 9457. */
function problemBody(refusal: Refusal, requestId: string) {
  const { httpStatus } = reasons[refusal.reason];
  const code = publicCode(refusal);
  return {
    type: `urn:keyrun:error:${code}`,
    title: code.replaceAll("_", " "),
    status: httpStatus,
    detail: refusal.message,
    code,
    param: refusal.param,
    requestId,
    details: errorDetailsJson(refusal),
  };
}
