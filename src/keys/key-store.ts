/**
 * The port of stored keys, and the records that go through it. `store/` implements it twice;
 * `test/contract` holds both to each sentence.
 */

import { z } from "zod";
import { filled, timeMs, version } from "../base/record-fields.ts";
import { quotaPeriods } from "../settings/config.ts";

/** A key as it is stored. It holds a keyed digest of the full value, never the value. */
export const keyRecord = z.strictObject({
  id: filled,
  teamId: filled,
  /** Empty where the key has no label. */
  label: z.string(),
  redactedValue: z.string(),
  /** HMAC-SHA-256 of the full value, base64url. */
  digest: filled,
  /** Which service secret made `digest`. */
  secretVersion: filled,
  requestId: filled.nullable(),
  createTimeMs: timeMs,
  createdBy: z.string(),
  lastUseTimeMs: timeMs.nullable(),
  revokeTimeMs: timeMs.nullable(),
  revokedBy: z.string().nullable(),
  /** From when on the key is refused; null: it does not expire. */
  expireTimeMs: timeMs.nullable(),
  /** When a sweep marked the key as expired. From then on it is final, whatever the clock does. */
  expiredTimeMs: timeMs.nullable(),
  /** The key that this one replaces, and the one that replaces it; null where there is none. */
  replacesKeyId: filled.nullable(),
  replacedByKeyId: filled.nullable(),
  /**
   * The first key of the rotations that led to this one; null where it is the first. Keys with one
   * first key count as one among the team's active keys.
   */
  firstKeyId: filled.nullable(),
  /** Since when the key waits for its predecessor to name it. Until then it can't be used. */
  pendingSinceMs: timeMs.nullable(),
  /** The only apps that the key may run; all of its team's where it is empty. */
  appIds: z.array(filled).readonly(),
  /** How many requests a minute the key may make; null: only the team's limit counts. */
  requestsPerMinute: z.int().positive().nullable(),
  /**
   * The quota of its own, which it shares with the keys that have its first key; null: only the
   * team's counts.
   */
  quota: z.strictObject({ requests: z.int().positive(), period: z.enum(quotaPeriods) }).nullable(),
  /** The version that floors compare: 1 at first. It grows with every change but a use. */
  version,
});
export type KeyRecord = Readonly<z.infer<typeof keyRecord>>;

/** Where the next page of a list starts: after the key with this time and id. */
export interface KeyCursor {
  readonly createTimeMs: number;
  readonly id: string;
}

/** Which keys of a list to return: those that one of these texts fits. */
export interface KeyMatch {
  /** A part of the label, both in the form of `searchForm`. */
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
  /** The team has `activeMax` active keys; nothing was written. */
  | { readonly kind: "limit_reached" };

/** What an update writes. Only `markExpired` marks a key as expired. */
export interface KeyChange {
  readonly label?: string;
  readonly expireTimeMs?: number;
}

export interface RotateKeyOrder {
  readonly teamId: string;
  readonly keyId: string;
  /** The version of the key that is replaced. */
  readonly version: number;
  /** The new key as it is to be once it can be used. */
  readonly successor: KeyRecord;
  /** What becomes of the replaced key. */
  readonly end:
    | { readonly kind: "expire"; readonly expireTimeMs: number }
    | { readonly kind: "revoke"; readonly revokeTimeMs: number; readonly revokedBy: string };
}

export type RotateKeyOutcome =
  | { readonly kind: "rotated"; readonly replaced: KeyRecord; readonly successor: KeyRecord }
  /** The team has a key with this request id; nothing was written. */
  | { readonly kind: "request_id_used"; readonly keyId: string }
  /** The key has another version, has ended, or is replaced; no key can be used that could not. */
  | { readonly kind: "changed" }
  /**
   * The replaced key is written as ordered, and whether its successor can be used by now is not
   * known, or it was revoked. To be announced, and then `cause` thrown.
   */
  | { readonly kind: "cut_off"; readonly replaced: KeyRecord; readonly cause: unknown }
  /** The key is to expire, and another key with its first key is active; nothing was written. */
  | { readonly kind: "predecessor_active" };

/** What became of keys that were pending. */
export interface SettledKeys {
  readonly completed: readonly KeyRecord[];
  readonly revoked: readonly KeyRecord[];
  readonly predecessors: readonly KeyRecord[];
  /** Why the rest was not done. All that is told here was. */
  readonly failed?: unknown;
}

/**
 * The keys of all teams. A key is active until it is revoked or marked as expired. A write whose
 * promise resolves survives a crash and is seen by every later read. Each method throws the refusal
 * UNAVAILABLE where the store can't be reached in time.
 */
export interface KeyStore {
  /**
   * Adds an active key. Where the request id is used and the limit is reached too, the outcome is
   * `request_id_used`. A team never gets more than `activeMax` active keys, however many inserts
   * run at once.
   */
  insert(key: KeyRecord, limits: { activeMax: number }): Promise<InsertKeyOutcome>;
  /** The key, active or not; undefined where there is none. */
  find(keyId: string): Promise<KeyRecord | undefined>;
  /**
   * Keys of a team, newest first; within one millisecond, by id descending. At most `limit` of
   * them, and only those after `after` and up to and with `until` where these are given. Keys that
   * are not active only where `includeRevoked`, alone where it is "only", and never one that is
   * pending. With `match`, only keys that it fits; every character of its texts stands for itself.
   * An unknown team has none.
   */
  list(query: {
    teamId: string;
    limit: number;
    after?: KeyCursor;
    until?: KeyCursor;
    includeRevoked: boolean | "only";
    match?: KeyMatch;
  }): Promise<KeyRecord[]>;
  /**
   * The place of the n-th key of that list, n from 1; undefined where the list is shorter. Reads an
   * index and no key.
   */
  placeOf(
    n: number,
    query: { teamId: string; after?: KeyCursor; includeRevoked: boolean | "only" },
  ): Promise<KeyCursor | undefined>;
  /** How many keys of the team are active. Those with one first key count as one. */
  countActive(teamId: string): Promise<number>;
  /** How many keys of the team are revoked or expired; `max` where there are more. */
  countRevoked(teamId: string, max: number): Promise<number>;
  /**
   * Marks active keys whose expiry is `nowMs` or earlier as expired, at most `limit`, and only the
   * team's or this key where one is named. Returns those that it marked, as they are then, in no
   * order. Awaits `before` for each key that it is about to mark; a key that is revoked meanwhile
   * is not marked.
   */
  markExpired(order: {
    nowMs: number;
    limit: number;
    teamId?: string;
    keyId?: string;
    before?: (key: { readonly teamId: string; readonly keyId: string }) => Promise<void>;
  }): Promise<KeyRecord[]>;
  /**
   * How many active keys expire after `fromMs` and not after `untilMs`; `max` where there are more.
   */
  countExpiring(span: { fromMs: number; untilMs: number; max: number }): Promise<number>;
  /**
   * Changes the team's key and returns it, its version one higher. Undefined where the team has no
   * such key, or the key has another version.
   */
  update(order: {
    teamId: string;
    keyId: string;
    version: number;
    change: KeyChange;
  }): Promise<KeyRecord | undefined>;
  /**
   * Replaces an active key by its successor: the replaced key names it and ends as ordered, and its
   * version is one higher. Neither can be seen without the other. Of several rotations of one key
   * at once exactly one is done. A rotation that is cut off may leave a successor that is pending.
   */
  rotate(order: RotateKeyOrder): Promise<RotateKeyOutcome>;
  /**
   * Ends rotations that were cut off: of the keys that are pending since `sinceMs` or earlier, at
   * most `limit`. A key that its predecessor names can be used from then on (`completed`): the
   * rotation was done. Any other is revoked, and its predecessor is whole. The request id of that
   * rotation can be used again. Awaits `before` for each key that it is about to revoke.
   *
   * A key that was revoked while it was pending stays so. An active key that names it is released:
   * it names none any more, so it can be rotated again, and its version is one higher.
   * `predecessors` are the keys that named one of all these, as they are then.
   */
  settlePending(order: {
    sinceMs: number;
    revokeTimeMs: number;
    revokedBy: string;
    limit: number;
    before?: (key: { readonly teamId: string; readonly keyId: string }) => Promise<void>;
  }): Promise<SettledKeys>;
  /**
   * Revokes the team's key for ever, also an expired one, and returns it, its version one higher. A
   * key that was revoked before stays as it is. Undefined where the team has no such key.
   */
  revoke(revocation: {
    teamId: string;
    keyId: string;
    revokeTimeMs: number;
    revokedBy: string;
  }): Promise<KeyRecord | undefined>;
  /** Deletes the key, active or not; ignores an unknown id. */
  delete(keyId: string): Promise<void>;
  /** Deletes keys of a team, active or not, at most `limit`, and returns their ids. */
  deleteAll(teamId: string, limit: number): Promise<string[]>;
  /**
   * Raises the last-use times, so many at once that no write is long. Never sets a time back;
   * ignores an unknown id. Where it throws, some of them may have been raised.
   */
  recordUses(lastUseTimeMsById: ReadonlyMap<string, number>): Promise<void>;
  /** Every secret version that an active or revoked key names, in no order. */
  secretVersions(): Promise<string[]>;
}
