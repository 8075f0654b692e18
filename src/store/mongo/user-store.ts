import type { UserStore } from "../../sign-in/sign-in-store.ts";
import { checkRecord } from "../records.ts";
import { type Collections, userDocument } from "./documents.ts";
import type { FreshRead } from "./fresh-read.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/** The user that each e-mail belongs to, in MongoDB. */
export function createUserStore(
  { users }: Collections,
  call: StoreCall,
  freshRead: FreshRead = {},
): UserStore {
  return {
    async bind({ email, ...user }) {
      const { _id, issuer, subject } = checkRecord(userDocument, { _id: email, ...user }, "users");
      const free = { _id: { $eq: _id }, $or: [{ issuer: { $ne: issuer } }, { subject: { $eq: subject } }] };
      const write = (upsert: boolean) =>
        call(() => users.updateOne(free, { $set: { issuer, subject } }, { upsert }));
      try {
        await write(true);
        return true;
      } catch (thrown) {
        // The e-mail has an owner. Where it got one a moment ago, the owner may be this same user.
        if (!isDuplicate(thrown)) throw thrown;
        return (await write(false)).matchedCount === 1;
      }
    },
    async find(email) {
      const document = await call(() => users.findOne({ _id: { $eq: email } }, freshRead));
      if (!document) return undefined;
      const { _id, ...facts } = checkRecord(userDocument, document, "users");
      return { email: _id, ...facts };
    },
    async release(email) {
      await call(() => users.deleteOne({ _id: { $eq: email } }));
    },
  };
}
