import { z } from "zod";
import type { NewTeam, TeamRecord, TeamStore } from "../../teams/team-store.ts";
import { given } from "../given.ts";
import { checkRecord, teamShape } from "../records.ts";
import { type Collections, storedTeam, type TeamDocument, teamDocument } from "./documents.ts";
import type { FreshRead } from "./fresh-read.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/** The teams in MongoDB. */
export function createTeamStore(
  { teams }: Collections,
  call: StoreCall,
  freshRead: FreshRead = {},
): TeamStore {
  const after = { returnDocument: "after" } as const;
  const live = (teamId: string) => ({ _id: { $eq: teamId }, deleted: { $eq: false } });

  return {
    async insert(team) {
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
      return teamOf(
        await call(() => teams.findOneAndUpdate(deleted, { $set: facts, $inc: { version: 1 } }, after)),
      );
    },
    async find(teamId) {
      return teamOf(await call(() => teams.findOne(live(teamId), freshRead)));
    },
    async list({ limit, after: afterId }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const page = teams
        .find({ _id: { $gt: afterId ?? "" }, deleted: { $eq: false } })
        .sort({ _id: 1 })
        .limit(limit);
      return (await call(() => page.toArray())).map(checkTeam);
    },
    async update(teamId, change) {
      const fields = checkRecord(teamChange, given(change), `teams/${teamId}`);
      const update = { ...(Object.keys(fields).length > 0 && { $set: fields }), $inc: { version: 1 } };
      return teamOf(await call(() => teams.findOneAndUpdate(live(teamId), update, after)));
    },
    async delete(teamId, version) {
      const ending = { ...live(teamId), state: { $eq: "ending" }, version: { $eq: version } } as const;
      const update = { $set: deletion, $inc: { version: 1 } };
      return (await call(() => teams.findOneAndUpdate(ending, update, after)))?.version;
    },
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

const { displayName, plan, state } = teamShape;
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
