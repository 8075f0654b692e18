import { expect, test } from "vitest";
import { whileTeamsStay } from "#src/teams/find-team.ts";
import type { TeamRecord } from "#src/teams/team-store.ts";
import { teamRecordOf } from "../harness/store-records.ts";

const team = teamRecordOf({ id: "demo" });

/** Gives something to the team, which becomes `after` during the write. */
async function give(before: TeamRecord | undefined, after: TeamRecord | undefined) {
  let now = before;
  const written: string[] = [];
  const work = {
    async write() {
      now = after;
      written.push("a key");
      return "a key";
    },
    undo: async (what: string) => written.splice(written.indexOf(what), 1),
  };
  const teams = { peek: () => undefined, load: async () => now };
  const outcome = await whileTeamsStay(teams, { teamIds: ["demo"] }, work).catch(({ reason }) => reason);
  return { outcome, written };
}

test("what is given to a team that stays is kept, also where the team was changed meanwhile", async () => {
  const changed = { ...team, plan: "pro", version: 2 } as const;
  expect(await give(team, changed)).toEqual({ outcome: "a key", written: ["a key"] });
});

test.each([
  ["begins during the write", { ...team, state: "ending", version: 2 } as const, "TEAM_ENDING"],
  ["is over after the write", undefined, "TEAM_NOT_FOUND"],
  [
    "made room for a new team with the id",
    { ...team, createTimeMs: team.createTimeMs + 1 },
    "TEAM_NOT_FOUND",
  ],
])("nothing stays that is given to a team whose deletion %s", async (_, after, outcome) => {
  expect(await give(team, after)).toEqual({ outcome, written: [] });
});

test("nothing is written for a team that is being deleted", async () => {
  const ending = { ...team, state: "ending" } as const;
  expect(await give(ending, ending)).toEqual({ outcome: "TEAM_ENDING", written: [] });
});
