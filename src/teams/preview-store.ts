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
