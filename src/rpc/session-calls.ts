import type { DescMethod } from "@bufbuild/protobuf";
import { namesTeam } from "../auth/policy.ts";
import type { Principal } from "../auth/principal.ts";
import { requireTeamOfService } from "../auth/require-service.ts";
import type { SessionAccess } from "../sign-in/session-access.ts";
import type { RpcPolicy } from "./rpc-parts.ts";

/**
 * Throws unless a member's or a service's request names one of the caller's own teams. The rule
 * needs the message, so it is checked here and not in `authenticate`. For a member it reads the
 * store for each message.
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

/**
 * Throws unless the request of a service that may manage some teams names one of these. Like
 * `authorizeCaller` it needs the message, and comes before anything of it is validated or read.
 */
export function authorizeService(principal: Principal, request: unknown): void {
  if (principal.kind !== "service" || principal.service === undefined) return;
  requireTeamOfService(principal.service, teamIdOf(request));
}

function teamIdOf(request: unknown): string {
  const named = typeof request === "object" && request !== null && "teamId" in request;
  return named && typeof request.teamId === "string" ? request.teamId : "";
}
