import { refuseFor } from "../refusal/refusal.ts";
import type { RecordSource } from "./record-source.ts";

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
