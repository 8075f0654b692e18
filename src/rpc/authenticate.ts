/**
 * One check of the caller for all RPC handlers: before the body by the policy, and after it by the
 * team that the message names.
 */

import type { DescMethod } from "@bufbuild/protobuf";
import {
  type AddressAllowanceView,
  type Admit,
  admitAnyone,
  type Caller,
  type Load,
} from "../admission/admission.ts";
import { namesTeam } from "../auth/policy.ts";
import { type CredentialKind, clientHeader, declaredClient, type Principal } from "../auth/principal.ts";
import {
  type NamedService,
  proveService,
  requireRole,
  requireTeamOfService,
  type ServiceRole,
  type VerifyServiceToken,
} from "../auth/require-service.ts";
import { readBearer } from "../http/request-head.ts";
import type { RateReport } from "../limit/rate-limit-headers.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";
import type { SessionAccess } from "../sign-in/session-access.ts";

/** The credential that each method takes on one listener. */
export interface RpcPolicy {
  /** The credential that the method takes; undefined if it is not served on this listener. */
  credentialOf(method: DescMethod): CredentialKind | undefined;
  /** How many bytes a request of the method may have, where one with a text may have `textMax`. */
  requestBytesMaxOf(method: DescMethod, textMax: number): number;
  /** The least role of a service that may call the method; undefined where no service may. */
  roleOf(method: DescMethod): ServiceRole | undefined;
  /** If false, a method that takes a session refuses every caller. */
  readonly readsSessions: boolean;
  /** Whether a service's call of the method is refused while there is too much to do. */
  isShed(method: DescMethod): boolean;
  /** Whether a call of the method counts as an activity of the session. */
  isActivity(method: DescMethod): boolean;
}

export interface AuthenticateParts {
  readonly policy: RpcPolicy;
  readonly admit: Admit;
  readonly load: Load;
  readonly allowance: AddressAllowanceView;
  readonly verifyServiceToken: VerifyServiceToken;
  readonly isInstanceToken: (presented: string) => boolean;
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
  | {
      readonly kind: "refused";
      readonly refusal: Refusal;
      readonly rate?: RateReport | undefined;
      /** The caller, if it has proven who it is. */
      readonly principal?: Principal | undefined;
    };

/**
 * Authenticates a call before its body is read, for both RPC handlers: looks up the credential that
 * the policy asks for and checks it. A run passes the same admission as over REST. Never rejects.
 */
export type Authenticate = (method: DescMethod, caller: Caller) => Promise<AuthResult>;

export function createAuthenticate(parts: AuthenticateParts): Authenticate {
  return async (method, caller) => {
    try {
      switch (parts.policy.credentialOf(method)) {
        case undefined:
          throw fail("UNIMPLEMENTED");
        case "api_key":
          return await parts.admit(caller, parts.allowance);
        case "service":
          return await admitService(parts, method, caller);
        case "instance":
          requireToken(caller, parts.isInstanceToken);
          return { kind: "admitted", principal: { kind: "instance" } };
        case "session":
          return admitSession(parts, caller, { needsPreview: false });
        case "preview_session":
          return admitSession(parts, caller, { needsPreview: true });
        case "none":
          return admitAnyone(caller, parts.allowance);
      }
    } catch (thrown) {
      return { kind: "refused", refusal: refusalFrom(thrown) };
    }
  };
}

async function admitService(
  parts: AuthenticateParts,
  method: DescMethod,
  caller: Caller,
): Promise<AuthResult> {
  const service = await proveService(caller.authorizations, parts.verifyServiceToken);
  return admitted(parts, { method, caller, service });
}

function admitted(
  { policy, load }: AuthenticateParts,
  { method, caller, service }: { method: DescMethod; caller: Caller; service: NamedService | undefined },
): AuthResult {
  const client = declaredClient(caller.header(clientHeader));
  const principal = { kind: "service", ...(service && { service }), ...(client && { client }) } as const;
  try {
    // A row for services has a role. Without one, nothing less than the most would do.
    requireRole(service, policy.roleOf(method) ?? "admin");
    // After the check of the token: a service that is known is not held to the few requests that an
    // address gets while there is too much to do.
    if (policy.isShed(method) && load.sheds(undefined)) throw fail("OVERLOADED");
    return { kind: "admitted", principal };
  } catch (thrown) {
    return { kind: "refused", refusal: refusalFrom(thrown), principal };
  }
}

function requireToken(caller: Caller, isRight: (presented: string) => boolean): void {
  const credential = readBearer(caller.authorizations);
  if (credential.kind === "missing") throw fail("MISSING_CREDENTIAL");
  if (credential.kind !== "bearer" || !isRight(credential.token)) throw fail("INVALID_CREDENTIAL");
}

/** Reads only the cookie, never a key or a token. No other code reads the cookie of an RPC. */
async function admitSession(
  { policy, sessions }: AuthenticateParts,
  caller: Caller,
  { needsPreview }: { needsPreview: boolean },
): Promise<AuthResult> {
  let principal: Principal | undefined;
  try {
    if (!policy.readsSessions) {
      throw fail(caller.authorizations.length === 0 ? "MISSING_CREDENTIAL" : "INVALID_CREDENTIAL");
    }
    if (!sessions) throw fail("UNIMPLEMENTED");
    const person = await sessions.authenticate((name) => caller.header(name));
    principal = person;
    if (needsPreview) await sessions.requirePreview(person);
    return { kind: "admitted", principal };
  } catch (thrown) {
    return { kind: "refused", refusal: refusalFrom(thrown), principal };
  }
}

/**
 * Throws unless a member's or a service's request names one of the caller's own teams. The rule
 * needs the message, so it is checked here and not in `authenticate`, but before anything of the
 * message is validated or read. For a member it reads the store for each message.
 */
export async function authorizeCaller(
  { policy, sessions }: { readonly policy: RpcPolicy; readonly sessions: SessionAccess | undefined },
  method: DescMethod,
  { principal, request }: { readonly principal: Principal; readonly request: unknown },
): Promise<void> {
  authorizeService(principal, request);
  if (principal.kind !== "session" || policy.credentialOf(method) !== "preview_session") return;
  if (!sessions) throw new Error("a session was taken where nobody can sign in");
  await sessions.requireMember(principal, teamIdOf(request));
  if (policy.isActivity(method)) await sessions.noteActivity(principal);
}

/** Whether the method reads a session on this listener. Throws if its request can't name a team. */
export function readsSession(policy: RpcPolicy, method: DescMethod): boolean {
  const credential = policy.credentialOf(method);
  if (!policy.readsSessions || !credential?.endsWith("session")) return false;
  if (credential === "preview_session") checkScope(method);
  return true;
}

/** Without a team in the request, every member could call the method for all teams. */
function checkScope(method: DescMethod): void {
  if (!namesTeam(method)) {
    throw new Error(`${method.toString()} takes a member's session, but its request names no team`);
  }
}

/** Throws unless the request of a service that may manage some teams names one of these. */
function authorizeService(principal: Principal, request: unknown): void {
  if (principal.kind !== "service" || principal.service === undefined) return;
  requireTeamOfService(principal.service, teamIdOf(request));
}

function teamIdOf(request: unknown): string {
  const named = typeof request === "object" && request !== null && "teamId" in request;
  return named && typeof request.teamId === "string" ? request.teamId : "";
}
