import type { DescMethod, DescService } from "@bufbuild/protobuf";

export type Listener = "public" | "internal";

/**
 * What a method takes as proof: an API key; the internal services' token; a session; a session whose user has
 * preview access, for the user's own teams only; or nothing.
 */
export type CredentialKind = "api_key" | "service" | "session" | "preview_session" | "none";

/** The credential that a method takes on each listener; without an entry it is not served there. */
export type PolicyRow = Readonly<Partial<Record<Listener, CredentialKind>>>;

const anyKey: PolicyRow = { public: "api_key", internal: "api_key" };
const service: PolicyRow = { internal: "service" };
const serviceOrMember: PolicyRow = { public: "preview_session", internal: "service" };
// Named for the internal listener too, where no session is ever read: a service gets UNAUTHENTICATED there.
const session: PolicyRow = { public: "session", internal: "session" };
const open: PolicyRow = { internal: "none" };

/** Who may call what: the one table. A method without a row is served to nobody, and the server does not start. */
const rows: Readonly<Record<string, PolicyRow>> = {
  "keyrun.v1.RunService.RunApp": anyKey,

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

/** What the method takes on this listener; undefined: it is not served there. */
export function credentialOf(method: DescMethod, listener: Listener): CredentialKind | undefined {
  return rows[nameOf(method)]?.[listener];
}

/** Throws, naming the methods, where a served method has no row or a row names no served method. */
export function checkPolicy(services: readonly DescService[]): void {
  const served = services.flatMap((each) => each.methods.map(nameOf));
  const unruled = served.filter((name) => !(name in rows));
  const idle = Object.keys(rows).filter((name) => !served.includes(name));
  if (unruled.length > 0) throw new Error(`No row in the policy for: ${unruled.join(", ")}`);
  if (idle.length > 0)
    throw new Error(`Rows in the policy for methods that are not served: ${idle.join(", ")}`);
}

function nameOf(method: DescMethod): string {
  return `${method.parent.typeName}.${method.name}`;
}
