/** What we know of a call and Connect's context does not. */

import { type ContextKey, createContextKey, type HandlerContext } from "@connectrpc/connect";
import type { Principal } from "../../auth/principal.ts";
import type { HttpRequest } from "../../http/handler.ts";
import type { RateReport } from "../../limit/rate-limit-headers.ts";
import type { Entry } from "../../metrics/metrics.ts";
import type { CallDeadline } from "../call-deadline.ts";
import type { AdmittedCall } from "../invoke.ts";

/** The facts of a call that Connect's context does not hold. */
export interface CallState {
  readonly request: HttpRequest;
  /** Set by `authenticate-request.ts`. */
  principal: Principal | undefined;
  /** Set by `authenticate-request.ts`: ends the reading of the request and the work. */
  deadline: CallDeadline | undefined;
  /** Set by `authenticate-request.ts` if a limit was checked: returns the current numbers. */
  rateNow: (() => RateReport) | undefined;
}

export const callStateKey: ContextKey<CallState | undefined> = createContextKey<CallState | undefined>(
  undefined,
);

export function callStateOf({ values }: HandlerContext): CallState {
  const state = values.get(callStateKey);
  if (!state) throw new Error("a call came to Connect without its request");
  return state;
}

/** Returns the entry under which the call is counted. */
export function entryOf({ protocolName }: HandlerContext): Entry {
  return protocolName === "connect" ? "connect" : "grpc";
}

/** Returns the call for a method's work, and what ends it. */
export function admittedCallOf(context: HandlerContext): Pick<AdmittedCall, "call" | "deadline"> {
  const { request, principal, deadline } = callStateOf(context);
  if (!principal || !deadline) throw new Error("a call came to its work without `authenticate-request.ts`");
  const call = {
    principal,
    http: request,
    signal: deadline.signal,
    timeoutMs: context.timeoutMs,
    responseHeaders: context.responseHeader,
    responseTrailers: context.responseTrailer,
    subject: {},
  };
  return { call, deadline };
}
