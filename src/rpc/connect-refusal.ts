import { ConnectError } from "@connectrpc/connect";
import type { Refusal } from "../error.ts";
import { errorDetails } from "../error-details.ts";
import { reasons } from "../reasons.ts";

/** A refusal as Connect sends it: canonical code, public words and details. Its cause stays behind for the log. */
export function connectErrorFrom(refusal: Refusal): ConnectError {
  const { code } = reasons[refusal.reason];
  const metadata = refusal.mayHaveRun ? { "x-should-retry": "false" } : {};
  return new ConnectError(refusal.message, code, metadata, errorDetails(refusal), refusal.cause);
}
