import type { UserStore } from "../../signin/user-store.ts";
import { checkRecord } from "../records.ts";
import { type Collections, userDocument } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/** Whose each e-mail is, in MongoDB. */
export function createUserStore({ users }: Collections, call: StoreCall): UserStore {
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
        // It is there and not free, unless it came a moment ago: then it may be this very user's.
        if (!isDuplicate(thrown)) throw thrown;
        return (await write(false)).matchedCount === 1;
      }
    },
    async isBound({ email, issuer, subject }) {
      const own = { _id: { $eq: email }, issuer: { $eq: issuer }, subject: { $eq: subject } };
      return (await call(() => users.findOne(own))) !== null;
    },
    async release(email) {
      await call(() => users.deleteOne({ _id: { $eq: email } }));
    },
  };
}
