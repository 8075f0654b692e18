import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { pairsOf } from "../../http/headers.ts";
import { reasonHeaders } from "../../http/refusal-response.ts";
import { rpcDetails } from "../../refusal/error-details.ts";
import { rowOf } from "../../refusal/reasons.ts";
import { isUnsafeToRepeat, type Refusal, repeatHeaders } from "../../refusal/refusal.ts";
import type { RpcParts } from "../rpc-parts.ts";
import { callStateOf, entryOf } from "./call-state.ts";

/** Errors that are already counted: refusals, and ConnectErrors that a method threw. */
const settled = new WeakSet<ConnectError>();

/**
 * Returns a refusal as Connect sends it: canonical code, public message and details. Connect never
 * sends the cause, which is for the log.
 */
export function connectErrorFrom(refusal: Refusal): ConnectError {
  const { code } = rowOf(refusal.reason);
  const metadata = Object.fromEntries(repeatHeaders(refusal));
  return settle(new ConnectError(refusal.message, code, metadata, rpcDetails(refusal), refusal.cause));
}

/**
 * Counts and logs the refusal of a call. Over Connect, which has HTTP statuses, it sets the headers
 * of the reason, and marks the response if its status alone would mislead. Over gRPC it puts the
 * request's id where a refusal without a message has all that it has: into the trailers.
 */
export function countRefusal(
  context: HandlerContext,
  { outcomes }: Pick<RpcParts, "outcomes">,
  refusal: Refusal,
): void {
  const { request } = callStateOf(context);
  outcomes.refused(refusal, entryOf(context), request);
  if (context.protocolName !== "connect") {
    context.responseTrailer.set("x-request-id", request.requestId);
    // Clients of gRPC-Web join both places, and would see it twice. A head that is sent keeps it.
    context.responseHeader.delete("x-request-id");
    return;
  }
  for (const [name, value] of pairsOf(reasonHeaders(refusal))) context.responseHeader.set(name, value);
  // RESOURCE_EXHAUSTED is HTTP 429 over Connect, and clients repeat a 429, even if no wait helps.
  const isLasting =
    rowOf(refusal.reason).code === Code.ResourceExhausted && refusal.retryAfterMs === undefined;
  if (isLasting && !isUnsafeToRepeat(refusal)) context.responseHeader.set("x-should-retry", "false");
}

/** Marks the error as counted: it is sent unchanged. */
export function settle(error: ConnectError): ConnectError {
  settled.add(error);
  return error;
}

export function isSettled(error: ConnectError): boolean {
  return settled.has(error);
}
