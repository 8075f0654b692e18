import type { InstanceRecordStore } from "../../fleet/instance-record-store.ts";
import { checkRecord } from "../records.ts";
import { type Collections, instanceDocument } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/** The record of the one instance that serves the database: a document whose id is fixed. */
export function createInstanceRecordStore({ instances }: Collections, call: StoreCall): InstanceRecordStore {
  const only = { _id: { $eq: "only" } };
  const of = (incarnation: string) => ({ ...only, incarnation: { $eq: incarnation } });

  return {
    async find() {
      const document = await call(() => instances.findOne(only));
      if (!document) return undefined;
      const { incarnation, beat } = checkRecord(instanceDocument, document, "instances/only");
      return { incarnation, beat };
    },
    async create(incarnation) {
      try {
        await call(() => instances.insertOne({ _id: "only", incarnation, beat: 1 }));
        return true;
      } catch (thrown) {
        if (isDuplicate(thrown)) return false;
        throw thrown;
      }
    },
    async replace(seen, incarnation) {
      const unchanged = { ...of(seen.incarnation), beat: { $eq: seen.beat } };
      const outcome = await call(() => instances.updateOne(unchanged, { $set: { incarnation, beat: 1 } }));
      return outcome.matchedCount === 1;
    },
    async renew(incarnation) {
      const outcome = await call(() => instances.updateOne(of(incarnation), { $inc: { beat: 1 } }));
      return outcome.matchedCount === 1;
    },
    async remove(incarnation) {
      await call(() => instances.deleteOne(of(incarnation)));
    },
  };
}
