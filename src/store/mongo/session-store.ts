import type { SessionRecord, SessionStore, UserRecord, UserStore } from "../../sign-in/sign-in-store.ts";
import { checkRecord } from "../records.ts";
import type { ReadConcernOptions } from "./connection.ts";
import { type Collections, sessionDocument, storedSession, userDocument } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";
import type { WithEvent } from "./with-event.ts";

/** The sessions in MongoDB. */
export function createSessionStore(
  { sessions }: Collections,
  call: StoreCall,
  withEvent: WithEvent,
  readOptions: ReadConcernOptions = {},
): SessionStore {
  async function find(idHash: string, read: ReadConcernOptions): Promise<SessionRecord | undefined> {
    const document = await call(() => sessions.findOne({ _id: { $eq: idHash } }, read));
    return document ? checkSession(document) : undefined;
  }
  return {
    insert: (session, { perUserMax }) =>
      withEvent(async () => {
        const { idHash, ...facts } = session;
        const document = checkRecord(sessionDocument, { _id: idHash, ...facts }, "sessions");
        await call(() => sessions.insertOne(document));
        const others = sessions
          .find({ issuer: { $eq: facts.issuer }, subject: { $eq: facts.subject }, _id: { $ne: idHash } })
          .sort({ createTimeMs: -1, _id: -1 })
          .skip(Math.max(perUserMax - 1, 0))
          .project({ _id: 1 });
        const removed = (await call(() => others.toArray())).map(({ _id }) => String(_id));
        if (removed.length > 0) await call(() => sessions.deleteMany({ _id: { $in: removed } }));
        return removed;
      }),
    find: (idHash) => find(idHash, readOptions),
    // A request that is refused after it touched its session has changed nothing.
    async touch(idHash, lastActiveTimeMs) {
      await call(() => sessions.updateOne({ _id: { $eq: idHash } }, { $max: { lastActiveTimeMs } }));
    },
    delete: (idHash) =>
      withEvent(
        async () => (await call(() => sessions.deleteOne({ _id: { $eq: idHash } }))).deletedCount === 1,
        async (read) => ((await find(idHash, read)) ? undefined : { answer: false }),
      ),
    async deleteExpired({ nowMs, idleSinceMs, limit }) {
      if (limit <= 0) return 0; // MongoDB takes 0 for no limit.
      const over = { $or: [{ expireTimeMs: { $lte: nowMs } }, { lastActiveTimeMs: { $lte: idleSinceMs } }] };
      const batch = sessions.find(over).limit(limit).project({ _id: 1 });
      const ids = (await call(() => batch.toArray())).map(({ _id }) => String(_id));
      if (ids.length === 0) return 0;
      // Checks again that the session is over: the person may have become active since.
      return (await call(() => sessions.deleteMany({ _id: { $in: ids }, ...over }))).deletedCount;
    },
  };
}

function checkSession(document: unknown): SessionRecord {
  const { _id, ...facts } = checkRecord(storedSession, document, "sessions");
  return { idHash: _id, ...facts };
}

/** The user that each e-mail belongs to, in MongoDB. */
export function createUserStore(
  { users }: Collections,
  call: StoreCall,
  withEvent: WithEvent,
  readOptions: ReadConcernOptions = {},
): UserStore {
  async function find(email: string, read: ReadConcernOptions): Promise<UserRecord | undefined> {
    const document = await call(() => users.findOne({ _id: { $eq: email } }, read));
    if (!document) return undefined;
    const { _id, ...facts } = checkRecord(userDocument, document, "users");
    return { email: _id, ...facts };
  }
  return {
    bind: ({ email, ...user }) =>
      withEvent(
        async () => {
          const { _id, issuer, subject } = checkRecord(userDocument, { _id: email, ...user }, "users");
          const ofNoOther = [{ issuer: { $ne: issuer } }, { subject: { $eq: subject } }];
          const free = { _id: { $eq: _id }, $or: ofNoOther };
          const write = (upsert: boolean) =>
            call(() => users.updateOne(free, { $set: { issuer, subject } }, { upsert }));
          try {
            await write(true);
            return true;
          } catch (thrown) {
            // The e-mail has an owner. Where it got one a moment ago, it may be this same user.
            if (!isDuplicate(thrown)) throw thrown;
            return (await write(false)).matchedCount === 1;
          }
        },
        async (read) => {
          const owner = await find(email, read);
          const isSame = owner?.issuer === user.issuer && owner.subject === user.subject;
          return isSame ? { answer: true } : undefined;
        },
      ),
    find: (email) => find(email, readOptions),
    release: (email) =>
      withEvent(
        async () => void (await call(() => users.deleteOne({ _id: { $eq: email } }))),
        async (read) => ((await find(email, read)) ? undefined : { answer: undefined }),
      ),
  };
}
