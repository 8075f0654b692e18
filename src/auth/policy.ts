/**
 * The policy: which credential each RPC takes on which listener, and what else depends on the RPC
 * alone. The server refuses to start where an RPC has no row.
 */

import { type DescMethod, type DescService, ScalarType } from "@bufbuild/protobuf";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { CredentialKind } from "./principal.ts";
import type { ServiceRole } from "./require-service.ts";

export type ListenerName = "public" | "internal";

/** The credential that a method takes on each listener; without an entry it is not served there. */
export interface PolicyRow extends Readonly<Partial<Record<ListenerName, CredentialKind>>> {
  /** The least role of a service that calls it. There is one exactly where a service is taken. */
  readonly role?: ServiceRole;
}

const anyKey: PolicyRow = { public: "api_key", internal: "api_key" };
const verifier: PolicyRow = { internal: "service", role: "verify" };
const service: PolicyRow = { internal: "service", role: "admin" };
// The request names a team, which must be one of the member's or of the service's own.
const serviceOrMember: PolicyRow = { public: "preview_session", internal: "service", role: "manage" };
// Also on the internal listener, where no session is ever read: a service gets UNAUTHENTICATED
// there.
const session: PolicyRow = { public: "session", internal: "session" };
const instance: PolicyRow = { internal: "instance" };
const open: PolicyRow = { internal: "none" };
// What anyone sends there is charged to the sender's address; a service has proved who it is.
const anyoneOrVerifier: PolicyRow = { public: "none", internal: "service", role: "verify" };

/**
 * The one table of the credential that each method takes. A method without a row is served to
 * nobody, and the server does not start.
 */
const rows: Readonly<Record<string, PolicyRow>> = {
  "keyrun.v1.RunService.RunApp": anyKey,
  "keyrun.v1.RunService.StreamApp": anyKey,
  "keyrun.v1.RunService.StartRun": anyKey,
  "keyrun.v1.RunService.GetRun": anyKey,
  "keyrun.v1.RunService.ListRuns": anyKey,
  "keyrun.v1.RunService.CancelRun": anyKey,

  "keyrun.v1.KeyService.CreateKey": serviceOrMember,
  "keyrun.v1.KeyService.ListKeys": serviceOrMember,
  "keyrun.v1.KeyService.WatchKeys": serviceOrMember,
  "keyrun.v1.KeyService.RevokeKey": serviceOrMember,
  "keyrun.v1.KeyService.VerifyKey": verifier,
  "keyrun.v1.KeyService.UpdateKey": serviceOrMember,
  "keyrun.v1.KeyService.RotateKey": serviceOrMember,
  "keyrun.v1.KeyService.RevokeLeakedKey": anyoneOrVerifier,
  "keyrun.v1.KeyService.GetUsage": serviceOrMember,

  "keyrun.v1.SessionService.GetSession": session,
  "keyrun.v1.SessionService.SignOut": session,
  "keyrun.v1.SessionService.CreateSignInLink": service,

  "keyrun.v1.TeamService.CreateTeam": service,
  "keyrun.v1.TeamService.GetTeam": service,
  "keyrun.v1.TeamService.ListTeams": service,
  "keyrun.v1.TeamService.UpdateTeam": service,
  "keyrun.v1.TeamService.DeleteTeam": service,
  "keyrun.v1.TeamService.AddMember": service,
  "keyrun.v1.TeamService.RemoveMember": service,
  "keyrun.v1.TeamService.ListMembers": service,
  "keyrun.v1.TeamService.GetRateLimit": serviceOrMember,
  "keyrun.v1.TeamService.GrantRequests": service,
  "keyrun.v1.TeamService.SetPreviewAccess": service,
  "keyrun.v1.TeamService.GetPreviewAccess": service,
  "keyrun.v1.TeamService.ListPreviewAccess": service,

  "keyrun.v1.AppService.CreateApp": service,
  "keyrun.v1.AppService.GetApp": service,
  "keyrun.v1.AppService.ListApps": service,
  "keyrun.v1.AppService.UpdateApp": service,
  "keyrun.v1.AppService.DeleteApp": service,
  "keyrun.v1.AppService.CheckApp": service,
  "keyrun.v1.AppService.ListRunnableApps": serviceOrMember,

  "keyrun.v1.ServiceTokenService.CreateServiceToken": service,
  "keyrun.v1.ServiceTokenService.ListServiceTokens": service,
  "keyrun.v1.ServiceTokenService.RevokeServiceToken": service,
  "keyrun.v1.AuditService.ListEvents": serviceOrMember,

  "keyrun.v1.FleetService.Nudge": instance,

  "grpc.health.v1.Health.Check": open,
  "grpc.health.v1.Health.List": open,
  "grpc.health.v1.Health.Watch": open,
  "grpc.reflection.v1.ServerReflection.ServerReflectionInfo": open,
  "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo": open,
};

/**
 * The credential that the method takes on this listener; undefined where it is not served there.
 */
export function credentialOf(method: DescMethod, listener: ListenerName): CredentialKind | undefined {
  return rows[nameOf(method)]?.[listener];
}

/** The least role of a service that may call the method; undefined where no service may. */
export function roleOf(method: DescMethod): ServiceRole | undefined {
  return rows[nameOf(method)]?.role;
}

/** The names of the methods that a service with this role may call, and none with a lesser one. */
export function methodsOf(role: ServiceRole): string[] {
  const names = Object.keys(rows).filter((name) => rows[name]?.role === role);
  return names.map((name) => name.slice(name.lastIndexOf(".") + 1));
}

/** The least role of a service that may read `/metrics`, which is no method. */
export const metricsRole: ServiceRole = "metrics";

/** Whether the method changes nothing, which its verb says. */
export function onlyReads({ name }: DescMethod): boolean {
  return /^(Check|Count|Get|List|Verify|Watch)[A-Z]/.test(name);
}

/**
 * Whether a call of the method counts as an activity of the session. The screen reads by itself,
 * and a page that is left open must not keep its session alive.
 */
export function isActivity(method: DescMethod): boolean {
  return !onlyReads(method);
}

/**
 * What is shed while there is too much to do, beside the runs (`admission/`): the method that
 * services call as often as they are called themselves. Every other method is never shed. It is
 * called by people and operators, takes a right away, or finds the key that is to be revoked.
 */
const shed: ReadonlySet<DescMethod> = new Set([KeyService.method.verifyKey]);

/** Whether a service's call of the method is refused while there is too much to do. */
export function isShed(method: DescMethod): boolean {
  return shed.has(method);
}

/** The bounds of what anyone may do who has found a key. */
export const leakBounds = {
  /** Bytes of a request: the longest value has 87, and a client may write it in any JSON. */
  reportBytesMax: 1_024,
  /** Reports that look a key up or revoke it at once. Far fewer than the look-ups of the runs. */
  reportsAtOnceMax: 8,
  /** Reports that wait for one of these. */
  reportsWaitingMax: 256,
  reportWaitMsMax: 1_000,
  /**
   * A key that was revoked this long ago is known as revoked by every instance of a fleet: what one
   * has cached is older by no more than its lifetime and the difference of the wall clocks.
   */
  revocationKnownMs: 65_000,
  /** Revoked keys of which is remembered that every instance was told. */
  toldKeysMax: 10_000,
} as const;

/** The methods whose requests carry the text of a run. */
const textMethods: ReadonlySet<DescMethod> = new Set([
  RunService.method.runApp,
  RunService.method.streamApp,
  RunService.method.startRun,
]);

/**
 * How many bytes a request of the method may have: `textMax` with the text of a run. All others are
 * short, so that a message of them, whatever its fields are, is read in a moment.
 */
export function requestBytesMaxOf(method: DescMethod, textMax: number): number {
  if (textMethods.has(method)) return textMax;
  // Anyone may send a report.
  const isReport = method === KeyService.method.revokeLeakedKey;
  return Math.min(textMax, isReport ? leakBounds.reportBytesMax : requestBytesMax);
}

/** Room for the longest app: its headers and its teams take 64 KiB each. */
const requestBytesMax = 256 * 1024;

/**
 * Throws, naming the methods, where a served method has no row, a row names no served method, or a
 * method that is limited to a service's teams has no `team_id` in its request.
 */
export function checkPolicy(services: readonly DescService[]): void {
  const served = services.flatMap((each) => each.methods.map(nameOf));
  const missing = served.filter((name) => !(name in rows));
  const unused = Object.keys(rows).filter((name) => !served.includes(name));
  if (missing.length > 0) throw new Error(`No row in the policy for: ${missing.join(", ")}`);
  if (unused.length > 0)
    throw new Error(`Rows in the policy for methods that are not served: ${unused.join(", ")}`);
  const methods = services.flatMap((each) => each.methods);
  const unscoped = methods.filter((method) => roleOf(method) === "manage" && !namesTeam(method)).map(nameOf);
  if (unscoped.length > 0) throw new Error(`No team_id in the requests of: ${unscoped.join(", ")}`);
}

function nameOf(method: DescMethod): string {
  return `${method.parent.typeName}.${method.name}`;
}

/** Whether the method's request names the team that it is about. */
export function namesTeam(method: DescMethod): boolean {
  const field = method.input.fields.find(({ name }) => name === "team_id");
  return field?.fieldKind === "scalar" && field.scalar === ScalarType.STRING;
}
