import { refuseFor } from "../refusal/refusal.ts";

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

/**
 * The records of the source, for work that decides by them after a wait. Throws UNAVAILABLE where
 * this instance may not admit requests when a record has been loaded: it may have stood still while
 * the others changed the record, and what it knows may be out of date.
 */
export function currentRecords<V>(source: RecordSource<V>, mayAdmit: () => boolean): RecordSource<V> {
  return {
    peek: (id) => (mayAdmit() ? source.peek(id) : undefined),
    async load(id) {
      const record = await source.load(id);
      if (mayAdmit()) return record;
      throw refuseFor("lease");
    },
  };
}
