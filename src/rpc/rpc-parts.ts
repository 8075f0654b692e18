/** What the RPC handlers of one listener are given. */

import type { AddressAllowanceView } from "../admission/admission.ts";
import type { Clock } from "../base/clock.ts";
import type { Mount } from "../http/handler.ts";
import type { Outcomes } from "../http/outcomes.ts";
import type { RequestHead } from "../http/request-head.ts";
import type { SessionAccess } from "../sign-in/session-access.ts";
import type { AuditCalls } from "./audit/audit-calls.ts";
import type { Authenticate, RpcPolicy } from "./authenticate.ts";
import type { Rpc } from "./served.ts";

/** The dependencies of the RPC handlers on one listener. */
export interface RpcParts {
  readonly rpcs: readonly Rpc[];
  readonly policy: RpcPolicy;
  readonly authenticate: Authenticate;
  readonly audit: Pick<AuditCalls, "unauthorized" | "during">;
  /** Undefined if the listener has no sign-in. */
  readonly sessions: SessionAccess | undefined;
  /** The allowance of an address, for responses that come before a team's limit is checked. */
  readonly allowance: Pick<AddressAllowanceView, "snapshot">;
  readonly clock: Clock;
  readonly messageBytesMax: number;
  /**
   * Whether a call over Connect must send `Connect-Protocol-Version`. A page of another site can't
   * send it without asking first; `curl` has no need to.
   */
  readonly needsConnectVersion: boolean;
  /**
   * Counts and logs calls through Connect, because their status may follow a body that began with
   * 200.
   */
  readonly outcomes: Outcomes;
}

/** Returns the mount that serves the request; undefined if the request is not an RPC. */
export type FindRpc = (head: RequestHead) => Mount | undefined;
