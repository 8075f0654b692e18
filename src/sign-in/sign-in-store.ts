/** The ports of `sign-in/`: stored sessions and users. */

import { z } from "zod";
import { filled, timeMs } from "../base/record-fields.ts";

/** A session as it is stored. It holds a hash of the browser's token, never the token. */
export const sessionRecord = z.strictObject({
  /** SHA-256 of the token, base64url. It is the session's id and can't be used to sign in. */
  idHash: filled,
  /**
   * With `subject`, the person who signed in. An e-mail may pass to another person; these two never
   * do.
   */
  issuer: filled,
  subject: filled,
  /** In lower case, and verified by the issuer. */
  email: filled,
  createTimeMs: timeMs,
  /** When the person last did something. Requests that the screen sends by itself do not count. */
  lastActiveTimeMs: timeMs,
  /** When the session ends, even if it is active. */
  expireTimeMs: timeMs,
});
export type SessionRecord = Readonly<z.infer<typeof sessionRecord>>;

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

/**
 * The owner of an e-mail. A user is a subject of an issuer, and no other subject of that issuer can
 * have the same e-mail.
 */
export const userRecord = z.strictObject({
  /** In lower case. */
  email: filled,
  issuer: filled,
  subject: filled,
});
export type UserRecord = Readonly<z.infer<typeof userRecord>>;

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
