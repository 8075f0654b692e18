import type { PreviewStore } from "../../teams/team-store.ts";
import type { Collections } from "./documents.ts";
import type { FreshRead } from "./fresh-read.ts";
import { repeatOnDuplicate, type StoreCall } from "./store-call.ts";

/** Preview access in MongoDB: one document for each user with access. */
export function createPreviewStore(
  { preview }: Collections,
  call: StoreCall,
  freshRead: FreshRead = {},
): PreviewStore {
  return {
    async set(email, granted) {
      const user = { _id: { $eq: email } };
      if (!granted) return void (await call(() => preview.deleteOne(user)));
      const grant = () => preview.updateOne(user, { $setOnInsert: { granted: true } }, { upsert: true });
      await repeatOnDuplicate(() => call(grant));
    },
    async has(email) {
      return (await call(() => preview.findOne({ _id: { $eq: email } }, freshRead))) !== null;
    },
    async list({ limit, after }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const page = preview
        .find({ _id: { $gt: after ?? "" } })
        .sort({ _id: 1 })
        .limit(limit);
      return (await call(() => page.toArray())).map(({ _id }) => _id);
    },
  };
}
