import { expect, test } from "vitest";
import { currentRecords } from "#src/cache/record-source.ts";
import { fail } from "#src/refusal/refusal.ts";
import { whileTeamsStay } from "#src/teams/find-team.ts";
import { teamRecordOf } from "../harness/store-records.ts";

const team = teamRecordOf({ id: "demo" });
const cached = { peek: () => team, load: async () => team };

test("a cached record is no answer for an instance without a lease", async () => {
  let holds = true;
  const teams = currentRecords(cached, () => holds);
  expect(teams.peek("demo")).toBe(team);
  expect(await teams.load("demo")).toBe(team);
  holds = false;
  expect(teams.peek("demo")).toBeUndefined();
  await expect(teams.load("demo")).rejects.toMatchObject({ reason: "UNAVAILABLE" });
});

test("what an instance gave to a team is taken back, where it stood still during the write and lost its lease", async () => {
  let holds = true;
  const undone: string[] = [];
  const given = whileTeamsStay(
    currentRecords(cached, () => holds),
    { teamIds: ["demo"] },
    {
      async write() {
        // Meanwhile the others go on without it, and may have deleted the team.
        holds = false;
        return "a key";
      },
      undo: async (written) => undone.push(written),
    },
  );
  await expect(given).rejects.toMatchObject({ reason: fail("UNAVAILABLE").reason });
  expect(undone).toEqual(["a key"]);
});
