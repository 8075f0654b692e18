/** The table of the RPCs that change something: what the audit log says of each. */

import {
  type DescEnum,
  type DescMessage,
  type DescMethod,
  type DescService,
  isMessage,
  type MessageShape,
} from "@bufbuild/protobuf";
import { type Duration, type FieldMask, type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { type App, AppSchema } from "#gen/keyrun/v1/app_pb.ts";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { QuotaPeriodSchema } from "#gen/keyrun/v1/quota_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { ServiceRoleSchema } from "#gen/keyrun/v1/service_token_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { PlanSchema, type Team, TeamSchema } from "#gen/keyrun/v1/team_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import type { ChangeForm } from "../../audit/audit-log.ts";
import { onlyReads } from "../../auth/policy.ts";
import type { ChangeSubject } from "../../auth/principal.ts";
import { isResourceId, normalEmail } from "../../base/fields.ts";
import { isKeyId } from "../../keys/key-value.ts";
import { mayHoldSecret } from "../../log/redaction.ts";

/** What the audit log says of a call of a method that changes something. */
export interface AuditedMethod {
  readonly action: string;
  readonly form: Pick<ChangeForm, "written" | "isGuess">;
  /**
   * What the request is about, and what exactly it asks for. An id that has not the form of one is
   * left out.
   */
  subjectOf(request: unknown): Required<ChangeSubject>;
}

/** The fields of a request that name what it is about, each with the form that it must have. */
interface Named {
  readonly team?: string | undefined;
  readonly key?: string | undefined;
  readonly app?: string | undefined;
  readonly email?: string | undefined;
  readonly serviceToken?: string | undefined;
  readonly detail?: Parameters<typeof detailOf>[0];
}

const { createTeam, updateTeam, deleteTeam, addMember, removeMember, setPreviewAccess, grantRequests } =
  TeamService.method;
const { createKey, updateKey, rotateKey, revokeKey, revokeLeakedKey } = KeyService.method;
const { createApp, updateApp, deleteApp } = AppService.method;
const { signOut, createSignInLink } = SessionService.method;
const { createServiceToken, revokeServiceToken } = ServiceTokenService.method;

/**
 * The one table of the methods that change something. The server does not start where one is
 * missing.
 */
const changes: ReadonlyMap<DescMethod, AuditedMethod> = new Map([
  // Keyrun makes the id of the key, and the keyring fills it in.
  change(createKey, "key.create", ({ teamId, expireTime, appIds, requestsPerMinute, quota }) => ({
    team: teamId,
    detail: {
      expire_time: timeText(expireTime),
      apps: appIdsOf(appIds),
      requests_per_minute: requestsPerMinute,
      quota: quota && `${quota.requests}/${enumText(QuotaPeriodSchema, quota.period)}`,
    },
  })),
  change(updateKey, "key.update", ({ teamId, keyId, updateMask, expireTime }) => {
    const changed = maskedFields(updateMask, updateKey.input);
    const ends = changed.includes("expire_time");
    return {
      team: teamId,
      key: keyId,
      detail: { changed, expire_time: ends ? timeText(expireTime) : undefined },
    };
  }),
  change(
    rotateKey,
    "key.rotate",
    ({ teamId, keyId, overlap }) => ({ team: teamId, key: keyId, detail: { overlap: spanText(overlap) } }),
    { written: "steps" },
  ),
  change(revokeKey, "key.revoke", ({ teamId, keyId }) => ({ team: teamId, key: keyId })),
  change(revokeLeakedKey, "key.revoke_leaked", () => ({}), { isGuess: true }),

  change(createTeam, "team.create", ({ team }) => ({ team: team?.id, detail: { plan: planOf(team) } })),
  change(updateTeam, "team.update", ({ team, updateMask }) => {
    const changed = maskedFields(updateMask, TeamSchema);
    const plan = changed.includes("plan") ? planOf(team) : undefined;
    return { team: team?.id, detail: { changed, plan } };
  }),
  change(deleteTeam, "team.delete", ({ teamId }) => ({ team: teamId }), { written: "steps" }),
  change(grantRequests, "team.grant_requests", ({ teamId, requests }) => ({
    team: teamId,
    detail: { requests: String(requests) },
  })),
  change(addMember, "member.add", ({ teamId, email }) => ({ team: teamId, email })),
  change(removeMember, "member.remove", ({ teamId, email }) => ({ team: teamId, email })),
  change(setPreviewAccess, "preview.set", ({ email, granted }) => ({ email, detail: { granted } })),

  change(createApp, "app.create", ({ app }) => ({ app: app?.id, detail: { backend: backendOf(app) } })),
  change(updateApp, "app.update", ({ app, updateMask }) => {
    const changed = maskedFields(updateMask, AppSchema);
    const backend = changed.includes("backend") ? backendOf(app) : undefined;
    return { app: app?.id, detail: { changed, backend } };
  }),
  change(deleteApp, "app.delete", ({ appId }) => ({ app: appId })),

  change(signOut, "session.sign_out", () => ({})),
  change(createSignInLink, "sign_in_link.create", () => ({}), { written: "first" }),

  change(createServiceToken, "service_token.create", ({ name, role }) => ({
    app: name,
    detail: { name: isResourceId(name) ? name : "", role: enumText(ServiceRoleSchema, role) },
  })),
  change(revokeServiceToken, "service_token.revoke", ({ serviceTokenId }) => ({
    serviceToken: serviceTokenId,
  })),
]);

/** What the audit log says of a call of the method; undefined if the method changes nothing. */
export function auditedMethod(method: DescMethod): AuditedMethod | undefined {
  return changes.get(method);
}

/** Throws, naming the methods, unless exactly those that change something have an event. */
export function checkAudited(services: readonly DescService[]): void {
  const methods = services
    .filter(({ typeName }) => typeName.startsWith("keyrun."))
    .flatMap((each) => each.methods);
  const wrong = methods.filter((method) => changes.has(method) !== isChange(method));
  if (wrong.length === 0) return;
  const names = wrong.map(({ parent, name }) => `${parent.typeName}.${name}`);
  throw new Error(`Methods that the audit log does not know: ${names.join(", ")}`);
}

/** A run of an app is none, and neither is what the instances of a fleet tell each other. */
function isChange(method: DescMethod): boolean {
  return method.parent !== RunService && method.parent !== FleetService && !onlyReads(method);
}

function change<Input extends DescMessage>(
  method: DescMethod & { readonly methodKind: "unary"; readonly input: Input },
  action: string,
  named: (request: MessageShape<Input>) => Named,
  form: AuditedMethod["form"] = {},
): readonly [DescMethod, AuditedMethod] {
  const subjectOf = (request: unknown) =>
    subject(isMessage(request, method.input) ? named(request as MessageShape<Input>) : {});
  return [method, { action, form, subjectOf }];
}

function subject({ team = "", detail = {}, ...named }: Named): Required<ChangeSubject> {
  return { teamId: isResourceId(team) ? team : "", target: targetOf(named), detail: detailOf(detail) };
}

/** What of the team the change is about; nothing if it is the team itself. */
function targetOf({ key, app, email, serviceToken }: Omit<Named, "team" | "detail">): string {
  if (key !== undefined) return isKeyId(key) ? key : "";
  if (app !== undefined) return isResourceId(app) ? app : "";
  if (email !== undefined) return plainEmail(email);
  if (serviceToken !== undefined) return isKeyId(serviceToken) ? serviceToken : "";
  return "";
}

function planOf(team: Team | undefined): string | undefined {
  return team && enumText(PlanSchema, team.plan);
}

/** Where an app's runs go: `echo`, or its origin. A path or a query of a URL may hold a secret. */
function backendOf(app: App | undefined): string | undefined {
  const { kind } = app?.backend ?? {};
  if (kind?.case === "http") return plainOrigin(kind.value.url);
  if (kind?.case === "grpc") return plainOrigin(`grpc${kind.value.tls ? "s" : ""}://${kind.value.target}`);
  return kind?.case;
}

function plainOrigin(text: string): string | undefined {
  const url = URL.parse(text);
  const origin = url?.host ? `${url.protocol}//${url.host}` : "";
  return origin === "" || mayHoldSecret(origin) ? undefined : origin;
}

/** The first of them that have the form of an id, and how many more there are. */
function appIdsOf(appIds: readonly string[]): string {
  const known = appIds.filter(isResourceId);
  const more = known.length - appIdsShown;
  return [...known.slice(0, appIdsShown), ...(more > 0 ? [`+${more}`] : [])].join(",");
}

const appIdsShown = 10;

/** People paste keys into any field, and a key before an `@` has the form of an e-mail. */
function plainEmail(text: string): string {
  const email = normalEmail(text.trim()) ?? "";
  return mayHoldSecret(email) ? "" : email;
}

/** A value of a detail; undefined leaves its pair out. */
type Value = string | number | boolean | undefined;

/**
 * The detail of an event: `plan=pro role=verify`. Values are numbers, times and names that Keyrun
 * knows, and never a text of the caller's, so none holds a space or a secret.
 */
function detailOf(pairs: Readonly<Record<string, Value>>): string {
  return Object.entries(pairs)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

/** The fields of the message that the mask names, in the message's order: `display_name,plan`. */
function maskedFields(mask: FieldMask | undefined, message: DescMessage): string {
  const paths = new Set(mask?.paths);
  const known = message.fields.filter(({ name }) => paths.has(name));
  return known.map(({ name }) => name).join(",");
}

/** The name of an enum's number: `pro`. Undefined if it is unspecified or unknown. */
function enumText({ value }: DescEnum, number: number): string | undefined {
  return number === 0 ? undefined : value[number]?.localName.toLowerCase();
}

/** The time in ISO 8601; undefined if it is absent, or none that there is. */
function timeText(time: Timestamp | undefined): string | undefined {
  const date = new Date(time === undefined ? Number.NaN : timestampMs(time));
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** The seconds of a span: `3600s`. Undefined if it is absent. */
function spanText(span: Duration | undefined): string | undefined {
  return span && `${Number(span.seconds) + span.nanos / 1e9}s`;
}
