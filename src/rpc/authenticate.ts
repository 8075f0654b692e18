import type { DescMethod } from "@bufbuild/protobuf";
import type { AddressAllowanceView, Admit } from "../admission/admission.ts";
import { readBearer } from "../auth/credential.ts";
import { clientHeader, declaredClient } from "../auth/declared-client.ts";
import type { Principal } from "../auth/principal.ts";
import type { HttpRequest } from "../http/handler.ts";
import type { RateReport } from "../limit/rate-limit-headers.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";
import type { SessionAccess } from "../sign-in/session-access.ts";
import type { RpcPolicy } from "./rpc-parts.ts";

export interface AuthenticateParts {
  readonly policy: RpcPolicy;
  readonly admit: Admit;
  readonly allowance: AddressAllowanceView;
  readonly isServiceToken: (presented: string) => boolean;
  /** Undefined if the listener has no sign-in. */
  readonly sessions: SessionAccess | undefined;
}

/** The caller, or the refusal of the call, with the rate limit if one was checked. */
export type AuthResult =
  | {
      readonly kind: "admitted";
      readonly principal: Principal;
      readonly rate?: RateReport;
      /** Returns the rate limit as it is at the time of the call. */
      readonly rateNow?: () => RateReport;
    }
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly rate?: RateReport | undefined };

/** The parts of a request that authentication reads. */
export type Caller = Pick<HttpRequest, "authorizations" | "address" | "header">;

/**
 * Authenticates a call before its body is read, for both RPC handlers: looks up the credential that
 * the policy asks for and checks it. A run passes the same admission as over REST. Never throws or
 * rejects.
 */
export type Authenticate = (method: DescMethod, caller: Caller) => AuthResult | Promise<AuthResult>;

export function createAuthenticate(parts: AuthenticateParts): Authenticate {
  return (method, caller) => {
    try {
      switch (parts.policy.credentialOf(method)) {
        case undefined:
          throw fail("UNIMPLEMENTED");
        case "api_key":
          return parts.admit(caller, parts.allowance);
        case "service":
          return admitService(parts, caller);
        case "session":
          return admitSession(parts, caller, { needsPreview: false });
        case "preview_session":
          return admitSession(parts, caller, { needsPreview: true });
        case "none":
          return { kind: "admitted", principal: { kind: "anyone" } };
      }
    } catch (thrown) {
      return { kind: "refused", refusal: refusalFrom(thrown) };
    }
  };
}

function admitService({ isServiceToken }: AuthenticateParts, caller: Caller): AuthResult {
  const credential = readBearer(caller.authorizations);
  if (credential.kind === "missing") throw fail("MISSING_CREDENTIAL");
  if (credential.kind !== "bearer" || !isServiceToken(credential.token)) throw fail("INVALID_CREDENTIAL");
  const client = declaredClient(caller.header(clientHeader));
  return { kind: "admitted", principal: { kind: "service", ...(client && { client }) } };
}

/** Reads only the cookie, never a key or a token. No other code reads the cookie of an RPC. */
async function admitSession(
  { policy, sessions }: AuthenticateParts,
  caller: Caller,
  { needsPreview }: { needsPreview: boolean },
): Promise<AuthResult> {
  try {
    if (!policy.readsSessions) {
      throw fail(caller.authorizations.length === 0 ? "MISSING_CREDENTIAL" : "INVALID_CREDENTIAL");
    }
    if (!sessions) throw fail("UNIMPLEMENTED");
    const principal = await sessions.authenticate((name) => caller.header(name));
    if (needsPreview) await sessions.requirePreview(principal);
    return { kind: "admitted", principal };
  } catch (thrown) {
    return { kind: "refused", refusal: refusalFrom(thrown) };
  }
}
