/**
 * Internal services: their roles, the check of the token that one shows, and of what its role may
 * do.
 */

import { readBearer } from "../http/request-head.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";

/** What a presented service token proved to be. */
export type ServiceTokenVerdict =
  /** The token of the settings, which may do everything. */
  | { readonly kind: "local" }
  | { readonly kind: "named"; readonly service: NamedService }
  /** Only where the secret matched. */
  | { readonly kind: "revoked" }
  | { readonly kind: "invalid" };

/** Verifies a service token. Synchronous where the store need not be read. */
export type VerifyServiceToken = (presented: string) => ServiceTokenVerdict | Promise<ServiceTokenVerdict>;

/**
 * The service that the request's token names; undefined for the token of the settings. Rejects with
 * the refusal. What the service may do is asked after it, with `requireRole`.
 */
export async function proveService(
  authorizations: readonly string[],
  verify: VerifyServiceToken,
): Promise<NamedService | undefined> {
  const credential = readBearer(authorizations);
  if (credential.kind === "missing") throw fail("MISSING_CREDENTIAL");
  if (credential.kind !== "bearer") throw fail("INVALID_CREDENTIAL");
  return serviceOf(await verify(credential.token));
}

function serviceOf(verdict: ServiceTokenVerdict): NamedService | undefined {
  if (verdict.kind === "local") return undefined;
  if (verdict.kind === "invalid") throw fail("INVALID_CREDENTIAL");
  if (verdict.kind === "revoked") throw revokedToken();
  return verdict.service;
}

/** Throws unless the service may do what needs the role. The token of the settings may. */
export function requireRole(service: NamedService | undefined, role: ServiceRole): void {
  if (service === undefined || service.role === role || service.role === "admin") return;
  throw fail("SERVICE_ROLE_REQUIRED", { metadata: { service: service.name, role } });
}

/** The refusal of a token that was revoked. Only for a caller who had it. */
export function revokedToken(): Refusal {
  return fail("INVALID_CREDENTIAL", { problem: "The service token was revoked. Create a new one." });
}

/**
 * Throws where the service may manage some teams and this is none of them: the same refusal for a
 * team that does not exist (AIP-211).
 */
export function requireTeamOfService(service: NamedService, teamId: string): void {
  if (service.role !== "manage" || service.teamIds.includes(teamId)) return;
  const { name } = service;
  const teamIds = service.teamIds.join(", ");
  const teams = teamIds === "" ? "it has none" : `its teams are ${teamIds}`;
  throw fail("SERVICE_ROLE_REQUIRED", {
    param: "team_id",
    metadata: { service: name, role: "manage", team_ids: teamIds },
    problem: `The token of the service \`${name}\` is not for this team: ${teams}. Use a token with the role manage for the team, or with the role admin.`,
  });
}

/** What a service may do. "admin" may do everything, and each of the others only its own part. */
export const serviceRoles = ["verify", "manage", "metrics", "admin"] as const;
export type ServiceRole = (typeof serviceRoles)[number];

/** A service with a token of its own. */
export interface NamedService {
  /** The id of the token. */
  readonly id: string;
  readonly name: string;
  readonly role: ServiceRole;
  /** The only teams that it may manage. Empty for roles that are not limited to teams. */
  readonly teamIds: readonly string[];
}
