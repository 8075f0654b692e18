import { ConnectError } from "@connectrpc/connect";
import { errorDetails } from "../../refusal/error-details.ts";
import { rowOf } from "../../refusal/reasons.ts";
import { isUnsafeToRepeat, type Refusal } from "../../refusal/refusal.ts";

/** Errors that are already counted: refusals, and ConnectErrors that a method threw. */
const settled = new WeakSet<ConnectError>();

/**
 * Returns a refusal as Connect sends it: canonical code, public message and details. Connect never
 * sends the cause, which is for the log.
 */
export function connectErrorFrom(refusal: Refusal): ConnectError {
  const { code } = rowOf(refusal.reason);
  const metadata = isUnsafeToRepeat(refusal) ? { "x-should-retry": "false" } : {};
  return settle(new ConnectError(refusal.message, code, metadata, errorDetails(refusal), refusal.cause));
}

/** Marks the error as counted: it is sent unchanged. */
export function settle(error: ConnectError): ConnectError {
  settled.add(error);
  return error;
}

export function isSettled(error: ConnectError): boolean {
  return settled.has(error);
}
