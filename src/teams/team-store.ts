import type { PlanName } from "../settings/config.ts";

export interface TeamRecord {
  readonly id: string;
  readonly displayName: string;
  readonly plan: PlanName;
  readonly createTimeMs: number;
  /** The version that floors compare: 1 when created, and one more with every change. */
  readonly version: number;
}

/**
 * All teams. Promises as in `KeyStore`: durable writes, UNAVAILABLE where the store can't be
 * reached in time.
 */
export interface TeamStore {
  /** Adds a team; false, and nothing written, where the id is taken. */
  insert(team: TeamRecord): Promise<boolean>;
  /** The team; undefined where there is none. */
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
  update(teamId: string, change: { displayName?: string; plan?: PlanName }): Promise<TeamRecord | undefined>;
}
