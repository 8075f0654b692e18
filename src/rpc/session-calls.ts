import type { DescMethod } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { credentialOf } from "../auth/policy.ts";
import type { Principal } from "../auth/principal.ts";
import type { SessionAccess } from "../signin/session-access.ts";

/** What a person does. All else the screen also does by itself, and a page left open must not keep its session. */
const activities: readonly DescMethod[] = [KeyService.method.createKey, KeyService.method.revokeKey];

/**
 * Before a method does anything with its request: a member's request must name one of the member's own teams. The
 * rule needs the message, so it is asked here and not in the gate; it reads the store at each call.
 */
export async function authorizeMember(
  sessions: SessionAccess | undefined,
  method: DescMethod,
  { principal, request }: { readonly principal: Principal; readonly request: unknown },
): Promise<void> {
  if (principal.kind !== "session" || credentialOf(method, "public") !== "preview_session") return;
  // Without either nobody could say whose team it is: no team is anybody's then.
  if (!sessions) throw new Error("a session was taken where nobody can sign in");
  await sessions.requireMember(principal, teamIdOf(request));
  if (activities.includes(method)) await sessions.noteActivity(principal);
}

/** The methods that take a session on the public listener. */
export function sessionMethods(methods: readonly DescMethod[]): DescMethod[] {
  const taking = methods.filter((method) => credentialOf(method, "public")?.endsWith("session"));
  for (const method of taking) checkScope(method);
  return taking;
}

/** What a member may call must say for which team, or every member could do it for all: the server does not start. */
function checkScope(method: DescMethod): void {
  if (credentialOf(method, "public") !== "preview_session") return;
  const field = method.input.fields.find(({ name }) => name === "team_id");
  if (field?.fieldKind !== "scalar" || field.scalar !== ScalarType.STRING) {
    throw new Error(`${method.toString()} takes a member's session, but its request names no team`);
  }
}

function teamIdOf(request: unknown): string {
  const named = typeof request === "object" && request !== null && "teamId" in request;
  return named && typeof request.teamId === "string" ? request.teamId : "";
}
