import type { HandlerContext } from "@connectrpc/connect";
import { credentialOf, type Listener } from "../auth/policy.ts";
import type { Clock } from "../clock.ts";
import { challengeOf } from "../edge/refusal-response.ts";
import { rateReportHeaders } from "../run/rate-report-headers.ts";
import type { SessionAccess } from "../signin/session-access.ts";
import { callerKey, callFacts, principalKey, rateKey } from "./caller.ts";
import { connectErrorFrom } from "./connect-refusal.ts";
import { explainFraming } from "./framing-refusals.ts";
import type { Gate } from "./gate.ts";
import type { OnRefusal } from "./on-refusal.ts";

export interface ConnectGateParts {
  readonly listener: Listener;
  readonly gate: Gate;
  /** Undefined where nobody can sign in. */
  readonly sessions: SessionAccess | undefined;
  readonly clock: Clock;
  readonly messageBytesMax: number;
  readonly onRefusal: OnRefusal;
}

/** The gate at the place where Connect calls it. Its interceptors would run only after the message was parsed. */
export function createRequestGate(parts: ConnectGateParts): (context: HandlerContext) => Promise<void> {
  return async (context) => {
    const caller = context.values.get(callerKey);
    context.responseHeader.set("x-request-id", caller.requestId);
    // An answer to who is signed in may hold a key that is shown once.
    if (asksForSession(parts, context)) context.responseHeader.set("cache-control", "no-store");
    explainFraming(context, parts);
    const passage = await parts.gate(context.method, caller);
    if (passage.rate) tellRate(context, rateReportHeaders(passage.rate, parts.clock));
    if (passage.kind === "refused") {
      parts.onRefusal(passage.refusal, callFacts(context));
      const challenge = challengeOf(passage.refusal);
      // Over gRPC there is no status 401, and so nothing to challenge.
      if (challenge && context.protocolName === "connect")
        context.responseHeader.set("www-authenticate", challenge);
      throw connectErrorFrom(passage.refusal);
    }
    context.values.set(principalKey, passage.principal);
    context.values.set(rateKey, passage.rateNow);
  };
}

function asksForSession({ listener, sessions }: ConnectGateParts, { method }: HandlerContext): boolean {
  return (
    listener === "public" && sessions !== undefined && !!credentialOf(method, listener)?.endsWith("session")
  );
}

/**
 * Puts the numbers where an answer of any outcome carries them, also one that Connect makes by itself: Connect has
 * headers alone; gRPC has trailers for a failure, and `tellRateOnSuccess` moves them to the headers of a success.
 */
function tellRate(context: HandlerContext, metadata: readonly string[]): void {
  const target = context.protocolName === "connect" ? context.responseHeader : context.responseTrailer;
  for (const [name, value] of pairs(metadata)) target.set(name, value);
}

/** For a success: the numbers as they are now, in the headers. */
export function tellRateOnSuccess(context: HandlerContext, clock: Clock): void {
  const rateNow = context.values.get(rateKey);
  if (!rateNow) return;
  for (const [name, value] of pairs(rateReportHeaders(rateNow(), clock))) {
    context.responseTrailer.delete(name);
    context.responseHeader.set(name, value);
  }
}

/** Names and values in turn, two by two. */
function* pairs(flat: readonly string[]): Generator<[string, string]> {
  for (let i = 0; i + 1 < flat.length; i += 2) yield [String(flat[i]), String(flat[i + 1])];
}
