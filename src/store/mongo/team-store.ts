import { z } from "zod";
import {
  type MemberRecord,
  type MemberStore,
  type NewTeam,
  type PreviewStore,
  type TeamRecord,
  type TeamStore,
  teamRecord,
} from "../../teams/team-store.ts";
import { checkRecord, given } from "../records.ts";
import type { ReadConcernOptions } from "./connection.ts";
import {
  type Collections,
  type MemberDocument,
  memberDocument,
  storedMember,
  storedTeam,
  type TeamDocument,
  teamDocument,
} from "./documents.ts";
import { isDuplicate, repeatOnDuplicate, type StoreCall } from "./store-call.ts";
import type { WithEvent } from "./with-event.ts";

/** The teams in MongoDB. */
export function createTeamStore(
  { teams }: Collections,
  call: StoreCall,
  withEvent: WithEvent,
  readOptions: ReadConcernOptions = {},
): TeamStore {
  const after = { returnDocument: "after" } as const;
  const live = (teamId: string) => ({ _id: { $eq: teamId }, deleted: { $eq: false } });

  return {
    insert: (team) =>
      withEvent(async () => {
        const document = newDocument(team);
        try {
          await call(() => teams.insertOne(document));
          return checkTeam(document);
        } catch (thrown) {
          if (!isDuplicate(thrown)) throw thrown;
        }
        // Where a deleted team has the id, its version is raised. Where a live team has it, nothing
        // is written.
        const { _id, version, ...facts } = document;
        const deleted = { _id: { $eq: _id }, deleted: { $eq: true } };
        const update = { $set: facts, $inc: { version: 1 } };
        return teamOf(await call(() => teams.findOneAndUpdate(deleted, update, after)));
      }),
    async find(teamId) {
      return teamOf(await call(() => teams.findOne(live(teamId), readOptions)));
    },
    async list({ limit, after: afterId }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const page = teams
        .find({ _id: { $gt: afterId ?? "" }, deleted: { $eq: false } })
        .sort({ _id: 1 })
        .limit(limit);
      return (await call(() => page.toArray())).map(checkTeam);
    },
    update: (teamId, change) =>
      withEvent(async () => {
        const fields = checkRecord(teamChange, given(change), `teams/${teamId}`);
        const update = { ...(Object.keys(fields).length > 0 && { $set: fields }), $inc: { version: 1 } };
        return teamOf(await call(() => teams.findOneAndUpdate(live(teamId), update, after)));
      }),
    delete: (teamId, version) =>
      withEvent(async () => {
        const ending = { ...live(teamId), state: { $eq: "ending" }, version: { $eq: version } } as const;
        const update = { $set: deletion, $inc: { version: 1 } };
        return (await call(() => teams.findOneAndUpdate(ending, update, after)))?.version;
      }),
    async deletedVersion(teamId) {
      const gone = { _id: { $eq: teamId }, deleted: { $eq: true } };
      // This write changes nothing, but it waits until the deletion is durable. A read would not.
      return (await call(() => teams.findOneAndUpdate(gone, { $max: { version: 1 } }, after)))?.version;
    },
  };
}

const deletion = {
  displayName: "",
  plan: "free",
  createTimeMs: 0,
  state: "active",
  deleted: true,
} as const;

const { displayName, plan, state } = teamRecord.shape;
const teamChange = z.strictObject({
  displayName: displayName.exactOptional(),
  plan: plan.exactOptional(),
  state: state.exactOptional(),
});

function newDocument({ id, ...facts }: NewTeam): TeamDocument {
  const document = { _id: id, ...facts, state: "active", version: 1, deleted: false };
  return checkRecord(teamDocument, document, `teams/${id}`);
}

function teamOf(document: TeamDocument | null): TeamRecord | undefined {
  return document ? checkTeam(document) : undefined;
}

function checkTeam(document: TeamDocument): TeamRecord {
  const { _id, deleted, ...facts } = checkRecord(storedTeam, document, `teams/${document._id}`);
  return { id: _id, ...facts };
}

/** The members of teams in MongoDB. */
export function createMemberStore(
  { members }: Collections,
  call: StoreCall,
  withEvent: WithEvent,
  readOptions: ReadConcernOptions = {},
): MemberStore {
  const one = (teamId: string, email: string) => ({ _id: { $eq: memberIdOf({ teamId, email }) } });
  async function find(
    teamId: string,
    email: string,
    read: ReadConcernOptions,
  ): Promise<MemberRecord | undefined> {
    const member = await call(() => members.findOne(one(teamId, email), read));
    return member ? checkMember(member) : undefined;
  }
  return {
    add: (member) =>
      withEvent(
        async () => {
          const document = checkRecord(memberDocument, { _id: memberIdOf(member), ...member }, "members");
          const { _id, ...facts } = document;
          const options = { upsert: true, returnDocument: "after" } as const;
          const write = () =>
            members.findOneAndUpdate({ _id: { $eq: _id } }, { $setOnInsert: facts }, options);
          // An upsert always returns a document, but its type can't say so.
          return checkMember((await repeatOnDuplicate(() => call(write))) ?? document);
        },
        async (read) => {
          const found = await find(member.teamId, member.email, read);
          return found && { answer: found };
        },
      ),
    remove: (teamId, email) =>
      withEvent(
        async () => (await call(() => members.deleteOne(one(teamId, email)))).deletedCount === 1,
        async (read) => ((await find(teamId, email, read)) ? undefined : { answer: false }),
      ),
    removeAll: (teamId, limit) =>
      withEvent(async () => {
        if (limit <= 0) return 0; // MongoDB takes 0 for no limit.
        const batch = members.find({ teamId: { $eq: teamId } }).limit(limit);
        const documents = await call(() => batch.toArray());
        if (documents.length === 0) return 0;
        const ids = documents.map(({ _id }) => _id);
        // If this process stood still in between, a new team may have the id, with newer members.
        const newest = Math.max(...documents.map((document) => checkMember(document).createTimeMs));
        const known = { _id: { $in: ids }, createTimeMs: { $lte: newest } };
        return (await call(() => members.deleteMany(known))).deletedCount;
      }),
    find: (teamId, email) => find(teamId, email, readOptions),
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

/** Preview access in MongoDB: one document for each user with access. */
export function createPreviewStore(
  { preview }: Collections,
  call: StoreCall,
  withEvent: WithEvent,
  readOptions: ReadConcernOptions = {},
): PreviewStore {
  const has = async (email: string, read: ReadConcernOptions) =>
    (await call(() => preview.findOne({ _id: { $eq: email } }, read))) !== null;
  return {
    set: (email, granted) =>
      withEvent(
        async () => {
          const user = { _id: { $eq: email } };
          if (!granted) return void (await call(() => preview.deleteOne(user)));
          const grant = () => preview.updateOne(user, { $setOnInsert: { granted: true } }, { upsert: true });
          await repeatOnDuplicate(() => call(grant));
        },
        async (read) => ((await has(email, read)) === granted ? { answer: undefined } : undefined),
      ),
    has: (email) => has(email, readOptions),
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
