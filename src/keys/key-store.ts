/** A key as it is stored. It holds a keyed digest of the full value, never the value. */
export interface KeyRecord {
  readonly id: string;
  readonly teamId: string;
  /** Empty where the key has no label. */
  readonly label: string;
  readonly redactedValue: string;
  /** HMAC-SHA-256 of the full value, base64url. */
  readonly digest: string;
  /** Which service secret made `digest`. */
  readonly secretVersion: string;
  readonly requestId: string | null;
  readonly createTimeMs: number;
  readonly createdBy: string;
  readonly lastUseTimeMs: number | null;
  readonly revokeTimeMs: number | null;
  readonly revokedBy: string | null;
  /** The version that floors compare: 1 while active, 2 once revoked. */
  readonly version: number;
}

/** Where the next page of a list starts: after the key with this time and id. */
export interface KeyCursor {
  readonly createTimeMs: number;
  readonly id: string;
}

/** Which keys of a list to return: those that one of these texts fits. */
export interface KeyMatch {
  /** A part of the label, both in the form of `foldCase`. */
  readonly labelPart?: string;
  /** The beginning of the id. */
  readonly idStart?: string;
  /** A part of the redacted value. */
  readonly redactedPart?: string;
}

export type InsertKeyOutcome =
  | { readonly kind: "inserted" }
  /** The team has a key with this request id; nothing was written. */
  | { readonly kind: "request_id_used"; readonly keyId: string }
  /** The team has `activeMax` keys that are not revoked; nothing was written. */
  | { readonly kind: "limit_reached" };

/**
 * The keys of all teams. A write whose promise resolves survives a crash and is seen by every later
 * read. Each method throws the refusal UNAVAILABLE where the store can't be reached in time.
 */
export interface KeyStore {
  /**
   * Adds an active key. Where the request id is used and the limit is reached too, the outcome is
   * `request_id_used`. A team never gets more than `activeMax` active keys, however many inserts
   * run at once.
   */
  insert(key: KeyRecord, limits: { activeMax: number }): Promise<InsertKeyOutcome>;
  /** The key, revoked or not; undefined where there is none. */
  find(keyId: string): Promise<KeyRecord | undefined>;
  /**
   * Keys of a team, newest first; within one millisecond, by id descending. At most `limit` of
   * them, and only those after `after` and up to and with `until` where these are given. Revoked
   * keys only where `includeRevoked`. With `match`, only keys that it fits; every character of its
   * texts stands for itself. An unknown team has none.
   */
  list(query: {
    teamId: string;
    limit: number;
    after?: KeyCursor;
    until?: KeyCursor;
    includeRevoked: boolean;
    match?: KeyMatch;
  }): Promise<KeyRecord[]>;
  /**
   * The place of the n-th key of that list, n from 1; undefined where the list is shorter. Reads an
   * index and no key.
   */
  placeOf(
    n: number,
    query: { teamId: string; after?: KeyCursor; includeRevoked: boolean },
  ): Promise<KeyCursor | undefined>;
  /** How many keys of the team are not revoked. */
  countActive(teamId: string): Promise<number>;
  /** How many keys of the team are revoked; `max` where there are more. */
  countRevoked(teamId: string, max: number): Promise<number>;
  /**
   * Revokes the team's key for ever and returns it. A key that was revoked before keeps its first
   * time and actor. Undefined where the team has no such key.
   */
  revoke(revocation: {
    teamId: string;
    keyId: string;
    revokeTimeMs: number;
    revokedBy: string;
  }): Promise<KeyRecord | undefined>;
  /** Deletes the key, revoked or not; ignores an unknown id. */
  delete(keyId: string): Promise<void>;
  /** Deletes keys of a team, revoked or not, at most `limit`, and returns their ids. */
  deleteAll(teamId: string, limit: number): Promise<string[]>;
  /** Raises the last-use times, all in one write. Never sets a time back; ignores an unknown id. */
  recordUses(lastUseTimeMsById: ReadonlyMap<string, number>): Promise<void>;
  /** Every secret version that an active or revoked key names, in no order. */
  secretVersions(): Promise<string[]>;
}
