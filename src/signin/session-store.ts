/** A session as it is stored. It holds a hash of the token that the browser keeps, never the token. */
export interface SessionRecord {
  /** SHA-256 of the token, base64url: the session's id, of no use to who reads it. */
  readonly idHash: string;
  /** With `subject`, who signed in: an e-mail may pass to another person, these two never do. */
  readonly issuer: string;
  readonly subject: string;
  /** In lower case, and verified by the issuer. */
  readonly email: string;
  readonly createTimeMs: number;
  /** When the person last did something, not the screen by itself. */
  readonly lastActiveTimeMs: number;
  /** When the session ends however active it is. */
  readonly expireTimeMs: number;
}

/** The sessions of everybody who is signed in. Promises as in `KeyStore`. */
export interface SessionStore {
  /**
   * Adds a session. Of the user's other sessions only the `perUserMax - 1` created last stay, so that a user never
   * keeps more than `perUserMax`; answers with the hashes of those that went.
   */
  insert(session: SessionRecord, limits: { perUserMax: number }): Promise<string[]>;
  /** The session, also one whose time is over; undefined where there is none. */
  find(idHash: string): Promise<SessionRecord | undefined>;
  /** Raises the time of the last activity. Never sets it back; an unknown hash is passed over. */
  touch(idHash: string, lastActiveTimeMs: number): Promise<void>;
  /** Removes a session; false where there was none. */
  delete(idHash: string): Promise<boolean>;
  /**
   * Removes at most `limit` sessions that end at `nowMs` or before, or were last active at `idleSinceMs` or before;
   * answers how many.
   */
  deleteExpired(query: { nowMs: number; idleSinceMs: number; limit: number }): Promise<number>;
}
