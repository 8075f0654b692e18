import type { DescMethod, DescService } from "@bufbuild/protobuf";
import type { CredentialKind } from "./credential.ts";

export type ListenerName = "public" | "internal";

/** The credential that a method takes on each listener; without an entry it is not served there. */
export type PolicyRow = Readonly<Partial<Record<ListenerName, CredentialKind>>>;

const anyKey: PolicyRow = { public: "api_key", internal: "api_key" };
const service: PolicyRow = { internal: "service" };
const serviceOrMember: PolicyRow = { public: "preview_session", internal: "service" };
// Also on the internal listener, where no session is ever read: a service gets UNAUTHENTICATED
// there.
const session: PolicyRow = { public: "session", internal: "session" };
const open: PolicyRow = { internal: "none" };

/**
 * The one table of the credential that each method takes. A method without a row is served to
 * nobody, and the server does not start.
 */
const rows: Readonly<Record<string, PolicyRow>> = {
  "keyrun.v1.RunService.RunApp": anyKey,
  "keyrun.v1.RunService.StreamApp": anyKey,

  "keyrun.v1.KeyService.CreateKey": serviceOrMember,
  "keyrun.v1.KeyService.ListKeys": serviceOrMember,
  "keyrun.v1.KeyService.WatchKeys": serviceOrMember,
  "keyrun.v1.KeyService.RevokeKey": serviceOrMember,
  "keyrun.v1.KeyService.VerifyKey": service,

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
  "keyrun.v1.TeamService.SetPreviewAccess": service,
  "keyrun.v1.TeamService.GetPreviewAccess": service,
  "keyrun.v1.TeamService.ListPreviewAccess": service,

  "keyrun.v1.AppService.CreateApp": service,
  "keyrun.v1.AppService.GetApp": service,
  "keyrun.v1.AppService.ListApps": service,
  "keyrun.v1.AppService.UpdateApp": service,
  "keyrun.v1.AppService.DeleteApp": service,
  "keyrun.v1.AppService.ListRunnableApps": serviceOrMember,

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

/**
 * The methods that only a person calls. The screen calls the others by itself, and a page that is
 * left open must not keep its session alive.
 */
const activities: readonly string[] = ["keyrun.v1.KeyService.CreateKey", "keyrun.v1.KeyService.RevokeKey"];

/** Whether a call of the method counts as an activity of the session. */
export function isActivity(method: DescMethod): boolean {
  return activities.includes(nameOf(method));
}

/** Throws, naming the methods, where a served method has no row or a row names no served method. */
export function checkPolicy(services: readonly DescService[]): void {
  const served = services.flatMap((each) => each.methods.map(nameOf));
  const missing = served.filter((name) => !(name in rows));
  const unused = Object.keys(rows).filter((name) => !served.includes(name));
  if (missing.length > 0) throw new Error(`No row in the policy for: ${missing.join(", ")}`);
  if (unused.length > 0)
    throw new Error(`Rows in the policy for methods that are not served: ${unused.join(", ")}`);
}

function nameOf(method: DescMethod): string {
  return `${method.parent.typeName}.${method.name}`;
}
