import type { HandlerContext } from "@connectrpc/connect";
import { readBearer } from "../auth/credential.ts";
import { credentialOf, type Listener } from "../auth/policy.ts";
import type { Clock } from "../clock.ts";
import { fail, type Refusal, refusalFrom } from "../error.ts";
import { rateLimitHeaders } from "../limit/rate-limit-headers.ts";
import type { AddressAllowanceView, Admit, RateReport } from "../run/admission.ts";
import type { SessionAccess } from "../signin/session-access.ts";
import { callerKey, principalKey, rateKey } from "./caller.ts";
import { connectErrorFrom } from "./connect-refusal.ts";
import { explainFraming } from "./framing-refusals.ts";

export interface GateParts {
  readonly listener: Listener;
  readonly clock: Clock;
  readonly admit: Admit;
  readonly allowance: AddressAllowanceView;
  readonly isServiceToken: (presented: string) => boolean;
  /** Undefined where nobody can sign in. */
  readonly sessions: SessionAccess | undefined;
  readonly messageBytesMax: number;
  /** Told of every refusal, for log and metrics. */
  readonly onRefusal: (refusal: Refusal, context: HandlerContext) => void;
}

/**
 * What every call passes before its body is read: the policy's row, the credential it asks for, and for runs the
 * same admission that the REST door calls. Interceptors would run only after the message was parsed.
 */
export function createRequestGate(parts: GateParts): (context: HandlerContext) => Promise<void> {
  return async (context) => {
    context.responseHeader.set("x-request-id", context.values.get(callerKey).requestId);
    explainFraming(context, parts);
    try {
      await prove(parts, context);
    } catch (thrown) {
      throw refuse(parts, context, refusalFrom(thrown));
    }
  };
}

async function prove(parts: GateParts, context: HandlerContext): Promise<void> {
  switch (credentialOf(context.method, parts.listener)) {
    case undefined:
      throw fail("UNIMPLEMENTED");
    case "api_key":
      return admitKey(parts, context);
    case "service":
      return admitService(parts, context);
    case "session":
    case "preview_session":
      return admitSession(parts, context);
    case "none":
  }
}

function admitService(parts: GateParts, context: HandlerContext): void {
  const credential = readBearer(context.values.get(callerKey).authorizations);
  if (credential.kind === "missing") throw fail("MISSING_CREDENTIAL");
  if (credential.kind !== "bearer" || !parts.isServiceToken(credential.token))
    throw fail("INVALID_CREDENTIAL");
  context.values.set(principalKey, { kind: "service" });
}

/** Cookies are read here alone, and here nothing else is: no key and no token counts in a session's place. */
async function admitSession(parts: GateParts, context: HandlerContext): Promise<void> {
  const { header, authorizations } = context.values.get(callerKey);
  if (parts.listener === "internal") {
    throw fail(authorizations.length === 0 ? "MISSING_CREDENTIAL" : "INVALID_CREDENTIAL");
  }
  if (!parts.sessions) throw fail("UNIMPLEMENTED");
  // An answer may hold a key that is shown once.
  context.responseHeader.set("cache-control", "no-store");
  const principal = await parts.sessions.authenticate(header);
  if (credentialOf(context.method, parts.listener) === "preview_session") {
    await parts.sessions.requirePreview(principal);
  }
  context.values.set(principalKey, principal);
}

async function admitKey(parts: GateParts, context: HandlerContext): Promise<void> {
  const admission = await parts.admit(context.values.get(callerKey), parts.allowance);
  const { rate } = admission;
  if (rate) tellRate(context, rateMetadata(rate, parts.clock));
  if (admission.kind === "refused") throw admission.refusal;
  context.values.set(principalKey, admission.principal);
  context.values.set(rateKey, admission.rateNow);
}

function refuse(parts: GateParts, context: HandlerContext, refusal: Refusal) {
  parts.onRefusal(refusal, context);
  return connectErrorFrom(refusal);
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
  for (const [name, value] of pairs(rateMetadata(rateNow(), clock))) {
    context.responseTrailer.delete(name);
    context.responseHeader.set(name, value);
  }
}

function rateMetadata({ decision, policy }: RateReport, clock: Clock): string[] {
  return rateLimitHeaders(decision, policy, clock.unixMs());
}

/** Names and values in turn, two by two. */
export function* pairs(flat: readonly string[]): Generator<[string, string]> {
  for (let i = 0; i + 1 < flat.length; i += 2) yield [String(flat[i]), String(flat[i + 1])];
}
