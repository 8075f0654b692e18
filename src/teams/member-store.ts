export interface MemberRecord {
  readonly teamId: string;
  /** In lower case. */
  readonly email: string;
  readonly createTimeMs: number;
}

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
