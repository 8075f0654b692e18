import { z } from "zod";
import type { TeamRecord, TeamStore } from "../../teams/team-store.ts";
import { given } from "../given.ts";
import { checkRecord, teamShape } from "../records.ts";
import { type Collections, type TeamDocument, teamDocument } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/** The teams in MongoDB. */
export function createTeamStore({ teams }: Collections, call: StoreCall): TeamStore {
  return {
    async insert({ id, ...facts }) {
      const document = checkRecord(teamDocument, { _id: id, ...facts }, `teams/${id}`);
      try {
        await call(() => teams.insertOne(document));
        return true;
      } catch (thrown) {
        if (isDuplicate(thrown)) return false;
        throw thrown;
      }
    },
    async find(teamId) {
      return teamOf(await call(() => teams.findOne({ _id: { $eq: teamId } })));
    },
    async list({ limit, after }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const page = teams
        .find({ _id: { $gt: after ?? "" } })
        .sort({ _id: 1 })
        .limit(limit);
      return (await call(() => page.toArray())).map(checkTeam);
    },
    async update(teamId, change) {
      const fields = checkRecord(teamChange, given(change), `teams/${teamId}`);
      const update = {
        ...(Object.keys(fields).length > 0 && { $set: fields }),
        $inc: { version: 1 },
      };
      return teamOf(
        await call(() =>
          teams.findOneAndUpdate({ _id: { $eq: teamId } }, update, { returnDocument: "after" }),
        ),
      );
    },
  };
}

const { displayName, plan } = teamShape;
const teamChange = z.strictObject({
  displayName: displayName.exactOptional(),
  plan: plan.exactOptional(),
});

function teamOf(document: TeamDocument | null): TeamRecord | undefined {
  return document ? checkTeam(document) : undefined;
}

function checkTeam(document: TeamDocument): TeamRecord {
  const { _id, ...facts } = checkRecord(teamDocument, document, `teams/${document._id}`);
  return { id: _id, ...facts };
}
