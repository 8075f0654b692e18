import type { DescMethod } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";
import type { Principal } from "../auth/principal.ts";
import type { SessionAccess } from "../sign-in/session-access.ts";
import type { RpcPolicy } from "./rpc-parts.ts";

/**
 * Throws unless a member's request names one of the member's own teams. The rule needs the message,
 * so it is checked here and not in `authenticate`. It reads the store for each message.
 */
export async function authorizeMember(
  { policy, sessions }: { readonly policy: RpcPolicy; readonly sessions: SessionAccess | undefined },
  method: DescMethod,
  { principal, request }: { readonly principal: Principal; readonly request: unknown },
): Promise<void> {
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
  const field = method.input.fields.find(({ name }) => name === "team_id");
  if (field?.fieldKind !== "scalar" || field.scalar !== ScalarType.STRING) {
    throw new Error(`${method.toString()} takes a member's session, but its request names no team`);
  }
}

function teamIdOf(request: unknown): string {
  const named = typeof request === "object" && request !== null && "teamId" in request;
  return named && typeof request.teamId === "string" ? request.teamId : "";
}
