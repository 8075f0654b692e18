/** The record of the instance that holds the store. */
export interface InstanceRecord {
  /** New for every attempt to hold the store. */
  readonly incarnation: string;
  /** Goes up by one with every renewal. */
  readonly beat: number;
}

/**
 * The one instance record of a shared store; each method is one atomic, durable step. Throws as
 * `KeyStore` does.
 */
export interface InstanceRecordStore {
  /** The record; undefined where there is none. */
  find(): Promise<InstanceRecord | undefined>;
  /** Writes a record with beat 1 where there is none; false where there is one. */
  create(incarnation: string): Promise<boolean>;
  /**
   * Replaces `seen` by a record with beat 1; false where the stored record does not equal `seen`
   * any more.
   */
  replace(seen: InstanceRecord, incarnation: string): Promise<boolean>;
  /** Raises the beat by one; false where the record is not of this incarnation. */
  renew(incarnation: string): Promise<boolean>;
  /** Removes the record if it is of this incarnation. */
  remove(incarnation: string): Promise<void>;
}
