import { ConnectError } from "@connectrpc/connect";
import { codeName } from "../http/refusal-response.ts";
import { type Reason, reasons } from "../refusal/reasons.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";

/**
 * Returns the refusal to log and count for what a method threw. A service may throw a ConnectError:
 * it is sent unchanged, and counted as the reason with the name of its code.
 */
export function refusalOfWork(thrown: unknown): Refusal {
  if (!(thrown instanceof ConnectError)) return refusalFrom(thrown);
  const name = codeName(thrown.code);
  return fail(isReason(name) ? name : "INTERNAL", { cause: thrown });
}

function isReason(name: string): name is Reason {
  return Object.hasOwn(reasons, name);
}
