/**
 * The owner of an e-mail. A user is a subject of an issuer, and no other subject of that issuer can
 * have the same e-mail.
 */
export interface UserRecord {
  /** In lower case. */
  readonly email: string;
  readonly issuer: string;
  readonly subject: string;
}

/** Which user each e-mail belongs to. Promises as in `KeyStore`. */
export interface UserStore {
  /**
   * Binds the e-mail to the user if it is free, or bound to a user of another issuer, because the
   * operator chose the new issuer. Returns true if the e-mail is this user's afterwards. Returns
   * false, and writes nothing, if it belongs to another subject of the same issuer. If two calls
   * run at once, one of them wins.
   */
  bind(user: UserRecord): Promise<boolean>;
  /** The user whose e-mail it is now; undefined if it is free. */
  find(email: string): Promise<UserRecord | undefined>;
  /** Frees the e-mail: the next user who signs in with it gets it. A free e-mail is ignored. */
  release(email: string): Promise<void>;
}
