import type { MemberRecord, MemberStore } from "../../teams/team-store.ts";
import { checkRecord } from "../records.ts";
import { type Collections, type MemberDocument, memberDocument, storedMember } from "./documents.ts";
import type { FreshRead } from "./fresh-read.ts";
import { repeatOnDuplicate, type StoreCall } from "./store-call.ts";

/** The members of teams in MongoDB. */
export function createMemberStore(
  { members }: Collections,
  call: StoreCall,
  freshRead: FreshRead = {},
): MemberStore {
  return {
    async add(member) {
      const document = checkRecord(memberDocument, { _id: memberIdOf(member), ...member }, "members");
      const { _id, ...facts } = document;
      const write = () =>
        members.findOneAndUpdate(
          { _id: { $eq: _id } },
          { $setOnInsert: facts },
          { upsert: true, returnDocument: "after" },
        );
      // An upsert always returns a document, but its type can't say so.
      return checkMember((await repeatOnDuplicate(() => call(write))) ?? document);
    },
    async remove(teamId, email) {
      const outcome = await call(() => members.deleteOne({ _id: { $eq: memberIdOf({ teamId, email }) } }));
      return outcome.deletedCount === 1;
    },
    async removeAll(teamId, limit) {
      if (limit <= 0) return 0; // MongoDB takes 0 for no limit.
      const batch = members.find({ teamId: { $eq: teamId } }).limit(limit);
      const found = (await call(() => batch.toArray())).map((document) => ({
        id: document._id,
        ...checkMember(document),
      }));
      if (found.length === 0) return 0;
      const ids = found.map(({ id }) => id);
      // If this process stood still in between, a new team may have the id, with newer members.
      const newest = Math.max(...found.map(({ createTimeMs }) => createTimeMs));
      const known = { _id: { $in: ids }, createTimeMs: { $lte: newest } };
      return (await call(() => members.deleteMany(known))).deletedCount;
    },
    async find(teamId, email) {
      const member = await call(() =>
        members.findOne({ _id: { $eq: memberIdOf({ teamId, email }) } }, freshRead),
      );
      return member ? checkMember(member) : undefined;
    },
    async list({ teamId, limit, after }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const query = { teamId: { $eq: teamId }, email: { $gt: after ?? "" } };
      const page = members.find(query).sort({ email: 1 }).limit(limit);
      return (await call(() => page.toArray())).map(checkMember);
    },
    async teamIdsOf(email, limit) {
      if (limit <= 0) return [];
      const page = members
        .find({ email: { $eq: email } })
        .sort({ teamId: 1 })
        .limit(limit);
      return (await call(() => page.toArray())).map((document) => checkMember(document).teamId);
    },
  };
}

/** A team's id holds no slash, so two memberships never have the same id. */
export function memberIdOf({ teamId, email }: { readonly teamId: string; readonly email: string }): string {
  return `${teamId}/${email}`;
}

function checkMember(document: MemberDocument): MemberRecord {
  const { _id, ...member } = checkRecord(storedMember, document, `members/${document._id}`);
  return member;
}
