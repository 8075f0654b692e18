import type { UserStore } from "../../sign-in/user-store.ts";
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
    async isBound({ email, issuer, subject }) {
      const own = { _id: { $eq: email }, issuer: { $eq: issuer }, subject: { $eq: subject } };
      return (await call(() => users.findOne(own, freshRead))) !== null;
    },
    async release(email) {
      await call(() => users.deleteOne({ _id: { $eq: email } }));
    },
  };
}
