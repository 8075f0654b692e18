import type { SessionRecord, SessionStore } from "../../sign-in/sign-in-store.ts";
import { checkRecord } from "../records.ts";
import { type Collections, sessionDocument, storedSession } from "./documents.ts";
import type { FreshRead } from "./fresh-read.ts";
import type { StoreCall } from "./store-call.ts";

/** The sessions in MongoDB. */
export function createSessionStore(
  { sessions }: Collections,
  call: StoreCall,
  freshRead: FreshRead = {},
): SessionStore {
  return {
    async insert(session, { perUserMax }) {
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
    },
    async find(idHash) {
      const document = await call(() => sessions.findOne({ _id: { $eq: idHash } }, freshRead));
      return document ? checkSession(document) : undefined;
    },
    async touch(idHash, lastActiveTimeMs) {
      await call(() => sessions.updateOne({ _id: { $eq: idHash } }, { $max: { lastActiveTimeMs } }));
    },
    async delete(idHash) {
      return (await call(() => sessions.deleteOne({ _id: { $eq: idHash } }))).deletedCount === 1;
    },
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
