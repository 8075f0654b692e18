import type { InstanceRecordStore } from "../../fleet/instance-record-store.ts";
import { checkRecord } from "../records.ts";
import type { FreshRead } from "./connection.ts";
import { type Collections, storedInstance } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/**
 * The record of the one instance that serves the database, or that holds what the id names: a
 * document whose id is fixed.
 */
export function createInstanceRecordStore(
  { instances }: Collections,
  call: StoreCall,
  { freshRead = {}, id = "only" }: { readonly freshRead?: FreshRead; readonly id?: string } = {},
): InstanceRecordStore {
  const only = { _id: { $eq: id } };
  const of = (incarnation: string) => ({ ...only, incarnation: { $eq: incarnation } });

  return {
    async find() {
      const document = await call(() => instances.findOne(only, freshRead));
      if (!document) return undefined;
      const { incarnation, beat } = checkRecord(storedInstance, document, `instances/${id}`);
      return { incarnation, beat };
    },
    async create(incarnation) {
      try {
        await call(() => instances.insertOne({ _id: id, incarnation, beat: 1 }));
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
