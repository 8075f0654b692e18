/** A service token, its bounds, and the port of the store. */

import { z } from "zod";
import { serviceRoles } from "../auth/require-service.ts";
import { filled, timeMs, version } from "../base/record-fields.ts";

/** A service token as it is stored. It holds a keyed digest of the full value, never the value. */
export const serviceTokenRecord = z.strictObject({
  id: filled,
  /** No two accepted tokens have the same name. */
  name: filled,
  role: z.enum(serviceRoles),
  /** The only teams that the service may manage. Empty for roles that are not limited to teams. */
  teamIds: z.array(filled).readonly(),
  redactedValue: z.string(),
  /** HMAC-SHA-256 of the full value, base64url. */
  digest: filled,
  /** Which service secret made `digest`. */
  secretVersion: filled,
  createTimeMs: timeMs,
  createdBy: z.string(),
  lastUseTimeMs: timeMs.nullable(),
  /** Null: the token is accepted. */
  revokeTimeMs: timeMs.nullable(),
  revokedBy: z.string().nullable(),
  /** The version that floors compare: 1 at first. It grows with every change but a use. */
  version,
});
export type ServiceTokenRecord = Readonly<z.infer<typeof serviceTokenRecord>>;

/** Where the next page of a list starts: after the token with this time and id. */
export interface ServiceTokenCursor {
  readonly createTimeMs: number;
  readonly id: string;
}

export type InsertServiceTokenOutcome =
  | { readonly kind: "inserted" }
  /** An accepted token has the name; nothing was written. */
  | { readonly kind: "name_used" }
  /** There are `acceptedMax` accepted tokens; nothing was written. */
  | { readonly kind: "limit_reached" };

/**
 * The tokens of internal services, without that of the settings. A write whose promise resolves
 * survives a crash and is seen by every later read. Each method throws the refusal UNAVAILABLE
 * where the store can't be reached in time.
 */
export interface ServiceTokenStore {
  /**
   * Adds an accepted token. Where the name is used and the limit is reached too, the outcome is
   * `name_used`. However many inserts run at once, there are never more than `acceptedMax` accepted
   * tokens, and never two with one name.
   */
  insert(token: ServiceTokenRecord, limits: { acceptedMax: number }): Promise<InsertServiceTokenOutcome>;
  /** The token, revoked or not; undefined where there is none. */
  find(tokenId: string): Promise<ServiceTokenRecord | undefined>;
  /**
   * Tokens, newest first; within one millisecond, by id descending. At most `limit` of them, and
   * only those after `after` where it is given. Revoked ones only where `includeRevoked`.
   */
  list(query: {
    limit: number;
    after?: ServiceTokenCursor;
    includeRevoked: boolean;
  }): Promise<ServiceTokenRecord[]>;
  /**
   * Revokes the token for ever and returns it. One that was revoked before keeps its first time and
   * actor. Undefined where there is no such token.
   */
  revoke(revocation: {
    tokenId: string;
    revokeTimeMs: number;
    revokedBy: string;
  }): Promise<ServiceTokenRecord | undefined>;
  /** Deletes the token, revoked or not; ignores an unknown id. */
  delete(tokenId: string): Promise<void>;
  /** Takes the team from every accepted token that names it, and returns these as they are now. */
  leaveTeam(teamId: string): Promise<ServiceTokenRecord[]>;
  /** Raises the last-use times, all in one write. Never sets a time back; ignores an unknown id. */
  recordUses(lastUseTimeMsById: ReadonlyMap<string, number>): Promise<void>;
  /** Every secret version that an accepted token names, in no order. */
  secretVersions(): Promise<string[]>;
}

/** The bounds of service tokens. */
export const serviceTokenBounds = {
  /** Accepted tokens beside that of the settings. */
  acceptedMax: 100,
  /** Teams of one token. */
  teamsMax: 100,
  /** Tokens in memory, with those that were revoked and are still sent. */
  cachedMax: 1_000,
  /** Ids known not to be in the store. */
  absentMax: 1_000,
  /** Look-ups of tokens in flight at once, and those that wait. */
  lookupsMax: 16,
  lookupWaitersMax: 1_000,
} as const;
