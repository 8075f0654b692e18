import type { ConnectError, HandlerContext } from "@connectrpc/connect";
import type { Clock } from "../../base/clock.ts";
import { pairsOf, streamHeaders } from "../../http/headers.ts";
import { rateReportHeaders } from "../../limit/rate-limit-headers.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import { readsSession } from "../authenticate.ts";
import { CallDeadline, isOver } from "../call-deadline.ts";
import type { RpcParts } from "../rpc-parts.ts";
import { callStateOf } from "./call-state.ts";
import { connectErrorFrom, countRefusal, explainFraming } from "./connect-refusal.ts";

/**
 * Calls `authenticate` before Connect reads the body. Interceptors run only after the message is
 * parsed.
 */
export function createAuthenticateRequest(parts: RpcParts): (context: HandlerContext) => Promise<void> {
  return async (context) => {
    const state = callStateOf(context);
    context.responseHeader.set("x-request-id", state.request.requestId);
    // A response to a person may contain a key that is shown once.
    if (parts.sessions && readsSession(parts.policy, context.method)) {
      context.responseHeader.set("cache-control", "no-store");
    }
    if (answersWithStream(context)) {
      for (const [name, value] of pairsOf(streamHeaders)) context.responseHeader.set(name, value);
    }
    explainFraming(context, parts);
    const result = await parts.authenticate(context.method, state.request);
    if (result.rate) setRate(context, rateReportHeaders(result.rate, parts.clock));
    if (result.kind === "refused") throw refused(context, parts, result.refusal);
    if (isOver(context.timeoutMs())) throw refused(context, parts, fail("DEADLINE_EXCEEDED"));
    state.principal = result.principal;
    state.rateNow = result.rateNow;
    state.deadline = new CallDeadline(context.signal);
  };
}

function answersWithStream({ method: { methodKind } }: HandlerContext): boolean {
  return methodKind === "server_streaming" || methodKind === "bidi_streaming";
}

/** Counts the refusal, and returns the error that Connect sends for it. */
function refused(context: HandlerContext, parts: RpcParts, refusal: Refusal): ConnectError {
  countRefusal(context, parts, refusal);
  return connectErrorFrom(refusal);
}

/**
 * Sets the rate limit where every response has it, also one that Connect creates itself. Connect
 * has only headers. gRPC has trailers for a failure; `rateOnSuccess` moves them to the headers.
 */
function setRate(context: HandlerContext, metadata: readonly string[]): void {
  const target = context.protocolName === "connect" ? context.responseHeader : context.responseTrailer;
  for (const [name, value] of pairsOf(metadata)) target.set(name, value);
}

/** Sets the current rate limit in the headers of a success. */
export function rateOnSuccess(context: HandlerContext, clock: Clock): void {
  const { rateNow } = callStateOf(context);
  if (!rateNow) return;
  for (const [name, value] of pairsOf(rateReportHeaders(rateNow(), clock))) {
    context.responseTrailer.delete(name);
    context.responseHeader.set(name, value);
  }
}

/** Sets the current rate limit of a refusal by the work: the gate's numbers are those before it. */
export function rateOnRefusal(context: HandlerContext, clock: Clock): void {
  const { rateNow } = callStateOf(context);
  if (rateNow) setRate(context, rateReportHeaders(rateNow(), clock));
}
