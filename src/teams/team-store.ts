import type { PlanName } from "../settings/config.ts";

export interface TeamRecord {
  readonly id: string;
  readonly displayName: string;
  readonly plan: PlanName;
  readonly createTimeMs: number;
  /** `ending` from the beginning of its deletion on: it gets nothing new then. */
  readonly state: "active" | "ending";
  /**
   * The version that floors compare. It grows with every change, also when the team is deleted and
   * created anew.
   */
  readonly version: number;
}

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
