import { expect, test } from "vitest";
import { createTeamService, type TeamServiceParts } from "#src/teams/team-service.ts";
import type { TeamRecord } from "#src/teams/team-store.ts";

test("a change of the plan is waited for each time, also where an earlier one was never told", async () => {
  let team: TeamRecord = {
    ...{ id: "acme", displayName: "Acme", plan: "team", createTimeMs: 1, version: 1 },
    state: "active",
  };
  const store = {
    find: async () => team,
    update: async (_id: string, change: Partial<TeamRecord>) => {
      team = { ...team, ...change, version: team.version + 1 };
      return team;
    },
  };
  const waited: unknown[] = [];
  let isCut = true;
  const changeSecurityState = async (
    _kind: string,
    write: () => Promise<TeamRecord>,
    changesOf: (written: TeamRecord) => { grants?: boolean },
  ) => {
    const written = await write();
    if (isCut) throw new Error("the push failed");
    waited.push(changesOf(written).grants !== true);
    return written;
  };
  const limits = { free: 10, pro: 100, team: 1_000, enterprise: 10_000 };
  const parts = { store, changeSecurityState, limitOf: (plan: keyof typeof limits) => limits[plan] };
  const service = createTeamService(parts as unknown as TeamServiceParts);
  const update = async (plan: number, path = "plan") =>
    service.updateTeam(
      { team: { id: "acme", plan, displayName: "A" }, updateMask: { paths: [path] } } as never,
      {} as never,
    );
  await expect(update(1)).rejects.toThrow("the push failed");
  isCut = false;
  await update(1); // The same again: the store holds it, but others may not.
  await update(2); // Larger than what the store holds, and smaller than what others may hold.
  await update(2, "display_name");
  expect(waited).toEqual([true, true, false]);
});
