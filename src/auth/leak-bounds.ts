/** The bounds of what anyone may do who has found a key. */
export const leakBounds = {
  /** Bytes of a request: the longest value has 87, and a client may write it in any JSON. */
  reportBytesMax: 1_024,
  /** Reports that look a key up or revoke it at once. Far fewer than the look-ups of the runs. */
  reportsAtOnceMax: 8,
  /** Reports that wait for one of these. */
  reportsWaitingMax: 256,
  reportWaitMsMax: 1_000,
  /**
   * A key that was revoked this long ago is known as revoked by every instance of a fleet: what one
   * has cached is older by no more than its lifetime and the difference of the wall clocks.
   */
  revocationKnownMs: 65_000,
  /** Revoked keys of which is remembered that every instance was told. */
  toldKeysMax: 10_000,
} as const;
