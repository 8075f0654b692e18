/** The bounds of a key's life that are not settings. */
export const keyLifeBounds = {
  /** How far away the expiry of a new key is, at least and at most: 10 years. */
  expiryMsMin: 60_000,
  expiryMsMax: 3_653 * 24 * 60 * 60 * 1_000,
  /** How long a replaced key may go on: 30 days. */
  overlapMsMax: 30 * 24 * 60 * 60 * 1_000,
  /**
   * After this time the rotation of a new key that can't be used yet was cut off, and is completed
   * or taken back. One that is only slow is not harmed: it is tried again.
   */
  pendingMsMax: 5_000,
  /** How often a change of a key is tried again because another change came first. */
  changeTriesMax: 20,
  /** How many successors of a key are read to tell which one may be rotated in its place. */
  successorsReadMax: 20,
  /** How often keys whose expiry has come are marked. */
  sweepMs: 2_000,
  /** How often the keys that expire soon are counted, and up to which number. */
  countMs: 60_000,
  expiringKeysCountedMax: 10_000,
} as const;
