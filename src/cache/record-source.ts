/** Finds records of one kind by id: in memory first, then in the store. */
export interface RecordSource<V> {
  /** What is in memory: the record; null: known not to exist; undefined: not known, call `load`. */
  peek(id: string): V | null | undefined;
  /**
   * The record, read from the store only where memory does not know it; undefined: it does not
   * exist.
   */
  load(id: string): Promise<V | undefined>;
}
