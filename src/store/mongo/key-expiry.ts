import type { Collection } from "mongodb";
import { foldCase } from "../../base/fields.ts";
import type { KeyRecord, KeyStore } from "../../keys/key-store.ts";
import { activeKey, checkKey, keyOf } from "./checked-key.ts";
import type { KeyDocument } from "./documents.ts";
import { endedSlot } from "./key-slots.ts";
import type { StoreCall } from "./store-call.ts";

/** The methods of `KeyStore` by which keys expire and change. */
export function expiryMethods(
  keys: Collection<KeyDocument>,
  call: StoreCall,
): Pick<KeyStore, "markExpired" | "countExpiring" | "update"> {
  return {
    async markExpired({ nowMs, limit, teamId, keyId, before }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      // Zero, because null is below every number.
      const due = { ...activeKey, expireTimeMs: { $gte: 0, $lte: nowMs } };
      const filter = {
        ...(teamId !== undefined && { teamId: { $eq: teamId } }),
        ...(keyId !== undefined && { _id: { $eq: keyId } }),
        ...due,
      };
      // What the next insert sees must be seen here too.
      const found = keys.find(filter, { readConcern: { level: "local" } }).limit(limit);
      const ids = await call(() => found.project<{ _id: string; teamId: string }>({ teamId: 1 }).toArray());
      const marked: KeyRecord[] = [];
      for (const { _id, teamId } of ids) {
        await before?.({ keyId: _id, teamId });
        // Another instance may mark it first, and a revocation may come first.
        const mark = { $set: { expiredTimeMs: nowMs, slot: endedSlot(_id) }, $inc: { version: 1 } };
        const one = { _id: { $eq: _id }, ...due };
        const document = await call(() => keys.findOneAndUpdate(one, mark, { returnDocument: "after" }));
        if (document) marked.push(checkKey(document));
      }
      return marked;
    },
    countExpiring: ({ fromMs, untilMs, max }) =>
      call(() =>
        keys.countDocuments({ ...activeKey, expireTimeMs: { $gt: fromMs, $lte: untilMs } }, { limit: max }),
      ),
    async update({ teamId, keyId, version, change }) {
      const one = { _id: { $eq: keyId }, teamId: { $eq: teamId }, version: { $eq: version } };
      const { label } = change;
      const facts = { ...change, ...(label !== undefined && { labelFolded: foldCase(label) }) };
      const update = { $set: facts, $inc: { version: 1 } };
      return keyOf(await call(() => keys.findOneAndUpdate(one, update, { returnDocument: "after" })));
    },
  };
}
