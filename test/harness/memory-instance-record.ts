import type { InstanceRecord, InstanceRecordStore } from "#src/fleet/instance-record-store.ts";

/** The instance record in memory, with the contract of MongoDB's. Tests can wrap its calls. */
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
