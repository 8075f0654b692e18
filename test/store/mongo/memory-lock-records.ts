import type { LockRecord, LockRecords } from "#src/store/mongo/lock.ts";

/** The document of a lock in memory, with the contract of MongoDB's. Tests can wrap its calls. */
export function memoryLockRecords(): LockRecords {
  let record: LockRecord | undefined;
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
