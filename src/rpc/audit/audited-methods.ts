import {
  type DescMessage,
  type DescMethod,
  type DescService,
  isMessage,
  type MessageShape,
} from "@bufbuild/protobuf";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import type { ChangeForm } from "../../audit/audit-log.ts";
import { normalEmail } from "../../fields/email.ts";
import { isResourceId } from "../../fields/resource-id.ts";
import { isKeyId } from "../../keys/key-value.ts";
import { mayHoldSecret } from "../../redaction.ts";

/** What the audit log says of a call of a method that changes something. */
export interface AuditedMethod {
  readonly action: string;
  readonly written: ChangeForm["written"];
  /** The ids that the request names. One that has not the form of an id is left out. */
  subjectOf(request: unknown): { readonly teamId: string; readonly target: string };
}

/** The fields of a request that name what it is about, each with the form that it must have. */
interface Named {
  readonly team?: string | undefined;
  readonly key?: string | undefined;
  readonly app?: string | undefined;
  readonly email?: string | undefined;
  readonly serviceToken?: string | undefined;
}

const { createTeam, updateTeam, deleteTeam, addMember, removeMember, setPreviewAccess } = TeamService.method;
const { createKey, updateKey, rotateKey, revokeKey, revokeLeakedKey } = KeyService.method;
const { createApp, updateApp, deleteApp } = AppService.method;
const { signOut, createSignInLink } = SessionService.method;
const { createServiceToken, revokeServiceToken } = ServiceTokenService.method;

/**
 * The one table of the methods that change something. Every other method is in `readOnly`, and the
 * server does not start with a method that is in neither.
 */
const changes: ReadonlyMap<DescMethod, AuditedMethod> = new Map([
  // Keyrun makes the id of the key, and the keyring notes it.
  change(createKey, "key.create", ({ teamId }) => ({ team: teamId })),
  change(updateKey, "key.update", ({ teamId, keyId }) => ({ team: teamId, key: keyId })),
  change(rotateKey, "key.rotate", ({ teamId, keyId }) => ({ team: teamId, key: keyId }), "steps"),
  change(revokeKey, "key.revoke", ({ teamId, keyId }) => ({ team: teamId, key: keyId })),
  change(revokeLeakedKey, "key.revoke_leaked", () => ({})),

  change(createTeam, "team.create", ({ team }) => ({ team: team?.id })),
  change(updateTeam, "team.update", ({ team }) => ({ team: team?.id })),
  change(deleteTeam, "team.delete", ({ teamId }) => ({ team: teamId }), "steps"),
  change(addMember, "member.add", ({ teamId, email }) => ({ team: teamId, email })),
  change(removeMember, "member.remove", ({ teamId, email }) => ({ team: teamId, email })),
  change(setPreviewAccess, "preview.set", ({ email }) => ({ email })),

  change(createApp, "app.create", ({ app }) => ({ app: app?.id })),
  change(updateApp, "app.update", ({ app }) => ({ app: app?.id })),
  change(deleteApp, "app.delete", ({ appId }) => ({ app: appId })),

  change(signOut, "session.sign_out", () => ({})),
  change(createSignInLink, "sign_in_link.create", () => ({}), "first"),

  change(createServiceToken, "service_token.create", ({ name }) => ({ app: name })),
  change(revokeServiceToken, "service_token.revoke", ({ serviceTokenId }) => ({
    serviceToken: serviceTokenId,
  })),
]);

/** Methods that change nothing, and runs of apps. The services of operations have no other. */
const readOnly: ReadonlySet<DescMethod> = new Set<DescMethod>([
  ...RunService.methods,
  ...AuditService.methods,
  ...FleetService.methods,
  ...only(KeyService, "listKeys", "watchKeys", "verifyKey", "getUsage"),
  ...only(TeamService, "getTeam", "listTeams", "listMembers", "getRateLimit"),
  ...only(TeamService, "getPreviewAccess", "listPreviewAccess"),
  ...only(AppService, "getApp", "listApps", "listRunnableApps"),
  ...only(SessionService, "getSession"),
  ...only(ServiceTokenService, "listServiceTokens"),
]);

/** Health and reflection: their methods only tell. */
const tellingPackages = ["grpc.health.", "grpc.reflection."];

/** What the audit log says of a call of the method; undefined if the method changes nothing. */
export function auditedMethod(method: DescMethod): AuditedMethod | undefined {
  return changes.get(method);
}

/** Throws, naming the methods, where a served method is neither in the table nor read-only. */
export function checkAudited(services: readonly DescService[]): void {
  const missing = services
    .filter(({ typeName }) => !tellingPackages.some((begin) => typeName.startsWith(begin)))
    .flatMap(({ methods }) => methods.filter((method) => changes.has(method) === readOnly.has(method)));
  if (missing.length === 0) return;
  const names = missing.map(({ parent, name }) => `${parent.typeName}.${name}`);
  throw new Error(`Methods that the audit log does not know: ${names.join(", ")}`);
}

function only<S extends DescService>(
  { method }: { readonly method: S["method"] },
  ...names: readonly (keyof S["method"])[]
): DescMethod[] {
  return names.map((name) => method[name]);
}

function change<Input extends DescMessage>(
  method: DescMethod & { readonly methodKind: "unary"; readonly input: Input },
  action: string,
  named: (request: MessageShape<Input>) => Named,
  written?: ChangeForm["written"],
): readonly [DescMethod, AuditedMethod] {
  const subjectOf = (request: unknown) =>
    subject(isMessage(request, method.input) ? named(request as MessageShape<Input>) : {});
  return [method, { action, written, subjectOf }];
}

/** The team, and what of it the change is about; nothing if it is the team itself. */
function subject({ team = "", key, app, email, serviceToken }: Named) {
  const teamId = isResourceId(team) ? team : "";
  if (key !== undefined) return { teamId, target: isKeyId(key) ? key : "" };
  if (app !== undefined) return { teamId, target: isResourceId(app) ? app : "" };
  if (email !== undefined) return { teamId, target: plainEmail(email) };
  if (serviceToken !== undefined) return { teamId, target: isKeyId(serviceToken) ? serviceToken : "" };
  return { teamId, target: "" };
}

/** People paste keys into any field, and a key before an `@` has the form of an e-mail. */
function plainEmail(text: string): string {
  const email = normalEmail(text.trim()) ?? "";
  return mayHoldSecret(email) ? "" : email;
}
