/** A session as it is stored. It holds a hash of the browser's token, never the token. */
export interface SessionRecord {
  /** SHA-256 of the token, base64url. It is the session's id and can't be used to sign in. */
  readonly idHash: string;
  /**
   * With `subject`, the person who signed in. An e-mail may pass to another person; these two never
   * do.
   */
  readonly issuer: string;
  readonly subject: string;
  /** In lower case, and verified by the issuer. */
  readonly email: string;
  readonly createTimeMs: number;
  /** When the person last did something. Requests that the screen sends by itself do not count. */
  readonly lastActiveTimeMs: number;
  /** When the session ends, even if it is active. */
  readonly expireTimeMs: number;
}

/** The sessions of all people who are signed in. Promises as in `KeyStore`. */
export interface SessionStore {
  /**
   * Adds a session, and removes the user's oldest sessions so that at most `perUserMax` remain.
   * Returns the hashes of those removed.
   */
  insert(session: SessionRecord, limits: { perUserMax: number }): Promise<string[]>;
  /** Returns the session, even if it has expired; undefined if there is none. */
  find(idHash: string): Promise<SessionRecord | undefined>;
  /** Raises the time of the last activity and never sets it back. An unknown hash is ignored. */
  touch(idHash: string, lastActiveTimeMs: number): Promise<void>;
  /** Removes a session; false if there was none. */
  delete(idHash: string): Promise<boolean>;
  /**
   * Removes at most `limit` sessions that end at `nowMs` or before, or were last active at
   * `idleSinceMs` or before. Returns how many were removed.
   */
  deleteExpired(query: { nowMs: number; idleSinceMs: number; limit: number }): Promise<number>;
}
