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
