import type { InstanceRecord, InstanceRecordStore } from "#src/fleet/instance-record-store.ts";

/** The record in memory, held to the same contract as MongoDB's: for tests that must step in between. */
export function memoryInstanceRecord(): InstanceRecordStore {
  let record: InstanceRecord | undefined;
  return {
    find: async () => record,
    async create(incarnation) {
      if (record) return false;
      record = { incarnation, beat: 1 };
      return true;
    },
    async replace(seen, incarnation) {
      if (record?.incarnation !== seen.incarnation || record.beat !== seen.beat) return false;
      record = { incarnation, beat: 1 };
      return true;
    },
    async renew(incarnation) {
      if (record?.incarnation !== incarnation) return false;
      record = { incarnation, beat: record.beat + 1 };
      return true;
    },
    async remove(incarnation) {
      if (record?.incarnation === incarnation) record = undefined;
    },
  };
}
