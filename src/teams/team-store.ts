/** Teams, their members, and who has preview access: the records and the ports of the store. */

import { z } from "zod";
import { filled, timeMs, version } from "../base/record-fields.ts";
import { planNames } from "../settings/config.ts";

export const teamRecord = z.strictObject({
  id: filled,
  displayName: z.string(),
  plan: z.enum(planNames),
  createTimeMs: timeMs,
  /** `ending` from the beginning of its deletion on: it gets nothing new then. */
  state: z.enum(["active", "ending"]),
  /**
   * The version that floors compare. It grows with every change, also when the team is deleted and
   * created anew.
   */
  version,
});
export type TeamRecord = Readonly<z.infer<typeof teamRecord>>;

/** The input of `insert`: the store sets the state and the version. */
export type NewTeam = Omit<TeamRecord, "state" | "version">;
/** The new values of the fields that change. */
export type TeamChange = Partial<Pick<TeamRecord, "displayName" | "plan" | "state">>;

/**
 * All teams. Promises as in `KeyStore`: durable writes, UNAVAILABLE where the store can't be
 * reached in time.
 */
export interface TeamStore {
  /** Adds an active team and returns it; undefined, and nothing written, where the id is taken. */
  insert(team: NewTeam): Promise<TeamRecord | undefined>;
  /** The team; undefined where there is none or it was deleted. */
  find(teamId: string): Promise<TeamRecord | undefined>;
  /**
   * Teams by id, ascending by code unit. At most `limit`, and only those after the id `after` where
   * it is given.
   */
  list(query: { limit: number; after?: string }): Promise<TeamRecord[]>;
  /**
   * Changes the given fields, raises the version by one and returns the changed team; undefined
   * where there is none. Two changes at once both take effect, one after the other.
   */
  update(teamId: string, change: TeamChange): Promise<TeamRecord | undefined>;
  /**
   * Deletes the team if it is ending and has this version. Returns the version of the deletion,
   * which is above every version that the team had; undefined where nothing was deleted.
   */
  delete(teamId: string, version: number): Promise<number | undefined>;
  /**
   * The version of the deletion of this id, durable like a write. Undefined where the team exists,
   * or never did.
   */
  deletedVersion(teamId: string): Promise<number | undefined>;
}

export const memberRecord = z.strictObject({
  teamId: filled,
  /** In lower case. */
  email: filled,
  createTimeMs: timeMs,
});
export type MemberRecord = Readonly<z.infer<typeof memberRecord>>;

/** The members of each team. Promises as in `KeyStore`. It does not check that the team exists. */
export interface MemberStore {
  /** Adds a member and returns the record; a member who was there before keeps the first time. */
  add(member: MemberRecord): Promise<MemberRecord>;
  /** Removes a member; false where there was none. */
  remove(teamId: string, email: string): Promise<boolean>;
  /** Removes members of a team, at most `limit`, and returns how many it removed. */
  removeAll(teamId: string, limit: number): Promise<number>;
  /** The member; undefined where the person does not belong to the team. */
  find(teamId: string, email: string): Promise<MemberRecord | undefined>;
  /**
   * Members of a team by e-mail, ascending by code unit. At most `limit`, and only those after
   * `after` where it is given.
   */
  list(query: { teamId: string; limit: number; after?: string }): Promise<MemberRecord[]>;
  /** The ids of the teams that the person belongs to, ascending by code unit; at most `limit`. */
  teamIdsOf(email: string, limit: number): Promise<string[]>;
}

/**
 * The users with access to the private preview. Promises as in `KeyStore`. E-mails are in lower
 * case.
 */
export interface PreviewStore {
  /** Gives or takes access. Repeating it changes nothing. */
  set(email: string, granted: boolean): Promise<void>;
  /** Whether the user has access. */
  has(email: string): Promise<boolean>;
  /**
   * Users with access, ascending by code unit. At most `limit`, and only those after `after` where
   * it is given.
   */
  list(query: { limit: number; after?: string }): Promise<string[]>;
}
