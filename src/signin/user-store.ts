/** Whose an e-mail is: a user is an issuer's subject, and keeps an e-mail from everybody else of that issuer. */
export interface UserRecord {
  /** In lower case. */
  readonly email: string;
  readonly issuer: string;
  readonly subject: string;
}

/** Which user each e-mail belongs to. Promises as in `KeyStore`. */
export interface UserStore {
  /**
   * Binds the e-mail to the user, where it is bound to nobody or to a user of another issuer: who runs Keyrun chose
   * the new issuer. True where the e-mail is this user's afterwards; false, and nothing written, where it belongs to
   * another subject of the same issuer. Of two at once one wins.
   */
  bind(user: UserRecord): Promise<boolean>;
  /** Whether the e-mail is this user's now. */
  isBound(user: UserRecord): Promise<boolean>;
  /** Lets the e-mail go: the next who signs in with it has it. An e-mail that is nobody's is passed over. */
  release(email: string): Promise<void>;
}
