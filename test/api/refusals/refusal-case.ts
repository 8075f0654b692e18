import type { ListenerName } from "#src/auth/policy.ts";
import type { Entry } from "#src/metrics/metrics.ts";
import type { Reason } from "#src/refusal/reasons.ts";
import type { WireAnswer } from "../../harness/exchange.ts";
import type { RefusalWorld } from "./world.ts";

/** One refusal, and how a caller causes it. */
export interface RefusalCase {
  readonly reason: Reason;
  /** What is wrong, if the reason alone does not say it. */
  readonly what?: string;
  readonly listener: ListenerName;
  readonly protocol: string;
  /** The entry under which the refusal must be counted. */
  readonly entry: Entry;
  /** The request's name in the log: method and route. */
  readonly request: string;
  /** The Keyrun that gets the request; by default the one with local sign-in. */
  readonly at?: "oidcKeyrun";
  /** The error in the address of the sign-in page: the answer to a browser names no reason. */
  readonly pageError?: string;
  /**
   * Sends only the request that is refused. Undefined if there is no answer because the caller
   * disconnects.
   */
  send(world: RefusalWorld, requestId: string): Promise<WireAnswer | undefined>;
  /**
   * Prepares the case; its own requests may be counted. Resolves with a function that undoes it.
   */
  prepare?(world: RefusalWorld): Promise<() => Promise<void>>;
}

export function nameOf({ reason, what, listener, protocol }: RefusalCase): string {
  return `${listener} listener, ${protocol}: ${reason}${what === undefined ? "" : `, ${what}`}`;
}

/** The name of a request in the log. Its path is one of the product's, or no route has it. */
export function loggedRequest(method: string, path: string): string {
  const [plain = ""] = path.split("?");
  if (/^\/(nowhere|api\/apps\/echo)$/.test(plain) || plain.endsWith("/Walk")) return `${method} (no route)`;
  const named = plain.replace(/^\/api\/runs\/[^/]+/, "/api/runs/{run_id}");
  return `${method} ${named.replace(/^\/api\/apps\/[^/]+\//, "/api/apps/{app_id}/")}`;
}
