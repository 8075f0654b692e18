import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { Plan, TeamState } from "#gen/keyrun/v1/team_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRunOnce } from "../harness/keyrun-process.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { signInOwner } from "../harness/members.ts";
import { refusedCall } from "./refused-call.ts";

const clock = createManualClock();
const keyrun = closedAtEnd(await startKeyrun({ clock }));

const echo = { kind: { case: "echo" as const, value: {} } };

async function run(value: string): Promise<{ status: number; code: string }> {
  const { status, body } = await restRunOnce(keyrun.publicUrl, { value });
  return { status, code: JSON.parse(body).error?.code ?? "" };
}

test("a team without active keys is deleted, and found nowhere any more", async () => {
  const teamId = await keyrun.newTeam();
  expect((await keyrun.teams.getTeam({ teamId })).team?.state).toBe(TeamState.ACTIVE);
  await keyrun.teams.deleteTeam({ teamId });
  const gone = { code: Code.NotFound, reason: "TEAM_NOT_FOUND", metadata: { team_id: teamId } };
  for (const call of [
    () => keyrun.teams.getTeam({ teamId }),
    () => keyrun.keys.createKey({ teamId }),
    () => keyrun.keys.listKeys({ teamId }),
    () => keyrun.teams.deleteTeam({ teamId }),
  ]) {
    expect(await refusedCall(call())).toMatchObject({ ...gone, words: `There is no team \`${teamId}\`.` });
  }
  expect((await keyrun.teams.listTeams({})).teams.map(({ id }) => id)).not.toContain(teamId);
});

test("a team with active keys stays as it was, and the refusal names the team and how many they are", async () => {
  const teamId = await keyrun.newTeam();
  const keys = [await keyrun.newKey(teamId), await keyrun.newKey(teamId)];
  await keyrun.keys.revokeKey({ teamId, keyId: keys[1]!.id });
  expect(await refusedCall(keyrun.teams.deleteTeam({ teamId }))).toEqual({
    code: Code.FailedPrecondition,
    reason: "TEAM_HAS_KEYS",
    metadata: { team_id: teamId, active_key_count: "1" },
    words: `Team \`${teamId}\` has active keys (1), so it was not deleted. Revoke them first.`,
  });
  expect((await keyrun.teams.getTeam({ teamId })).team?.state).toBe(TeamState.ACTIVE);
  expect(await run(keys[0]!.value)).toEqual({ status: 200, code: "" });
  expect(await run((await keyrun.newKey(teamId)).value)).toEqual({ status: 200, code: "" });
});

test("a team that an app is limited to stays, because the app would else be for all, and the app is named", async () => {
  const [teamId, other] = [await keyrun.newTeam(), await keyrun.newTeam()];
  const appId = `only-${teamId}`;
  await keyrun.apps.createApp({ app: { id: appId, backend: echo, teamIds: [teamId] } });
  expect(await refusedCall(keyrun.teams.deleteTeam({ teamId }))).toMatchObject({
    code: Code.FailedPrecondition,
    reason: "TEAM_HAS_APPS",
    metadata: { team_id: teamId, app_ids: appId },
  });
  expect((await keyrun.teams.getTeam({ teamId })).team?.state).toBe(TeamState.ACTIVE);
  const app = { id: appId, teamIds: [other] };
  await keyrun.apps.updateApp({ app, updateMask: { paths: ["team_ids"] } });
  await keyrun.teams.deleteTeam({ teamId });
  expect((await keyrun.apps.getApp({ appId })).app?.teamIds).toEqual([other]);
});

test("of many apps, three are named", async () => {
  const teamId = await keyrun.newTeam();
  for (const name of ["a", "b", "c", "d"]) {
    await keyrun.apps.createApp({ app: { id: `${name}-${teamId}`, backend: echo, teamIds: [teamId] } });
  }
  const refusal = await refusedCall(keyrun.teams.deleteTeam({ teamId }));
  expect(refusal.metadata?.app_ids).toBe(`a-${teamId}, b-${teamId}, c-${teamId} and more`);
});

test("a deleted team's keys stay refused, from the caches too, and are not those of a new team with its id", async () => {
  const teamId = await keyrun.newTeam();
  const key = await keyrun.newKey(teamId);
  expect(await run(key.value)).toEqual({ status: 200, code: "" });
  await keyrun.keys.revokeKey({ teamId, keyId: key.id });
  expect(await run(key.value)).toEqual({ status: 401, code: "revoked_api_key" });
  await keyrun.teams.deleteTeam({ teamId });
  expect(await run(key.value)).toEqual({ status: 401, code: "invalid_api_key" });
  expect((await keyrun.keys.verifyKey({ value: key.value })).verdict).toBe(Verdict.INVALID);
  await keyrun.teams.createTeam({ team: { id: teamId, plan: Plan.PRO } });
  const again = await keyrun.newKey(teamId);
  expect(await run(again.value)).toEqual({ status: 200, code: "" });
  const listed = await keyrun.keys.listKeys({ teamId, showRevoked: true });
  expect(listed).toMatchObject({ keys: [{ id: again.id }], activeKeyCount: 1, revokedKeyCount: 0 });
  for (let minute = 0; minute < 2; minute++) {
    expect(await run(key.value)).toEqual({ status: 401, code: "invalid_api_key" });
    clock.advance(61_000);
  }
  const refusal = await refusedCall(keyrun.keys.revokeKey({ teamId, keyId: key.id }));
  expect(refusal).toMatchObject({ reason: "KEY_NOT_FOUND", metadata: { team_id: teamId, key_id: key.id } });
});

test("a new team with the id has its own plan and name, no members, and a new create time", async () => {
  const teamId = await keyrun.newTeam();
  await keyrun.teams.addMember({ teamId, email: "ada@example.com" });
  await keyrun.teams.deleteTeam({ teamId });
  clock.advance(5_000);
  await keyrun.teams.createTeam({ team: { id: teamId, displayName: "New", plan: Plan.TEAM } });
  const { team } = await keyrun.teams.getTeam({ teamId });
  expect(team).toMatchObject({ displayName: "New", plan: Plan.TEAM, state: TeamState.ACTIVE });
  expect(Number(team?.createTime?.seconds)).toBe(Math.floor(clock.unixMs() / 1_000));
  expect((await keyrun.teams.listMembers({ teamId })).members).toEqual([]);
});

test("a member stays signed in and loses the team, and the member's stream of its keys ends", async () => {
  const teamId = await keyrun.newTeam();
  await keyrun.teams.addMember({ teamId, email: "owner@localhost" });
  const { keys, sessions } = await signInOwner(keyrun);
  const teamsOf = async () => (await sessions.getSession({})).teams.map(({ id }) => id);
  expect(await teamsOf()).toContain(teamId);
  const stream = keys.watchKeys({ teamId })[Symbol.asyncIterator]();
  expect((await stream.next()).value?.event.case).toBe("opened");
  const ended = refusedCall(stream.next());
  await keyrun.teams.deleteTeam({ teamId });
  expect(await ended).toMatchObject({ code: Code.NotFound, reason: "TEAM_NOT_FOUND" });
  expect(await teamsOf()).not.toContain(teamId);
  expect(await refusedCall(keys.listKeys({ teamId }))).toMatchObject({ reason: "TEAM_NOT_FOUND" });
});

test("a service's stream of the team's keys ends, too", async () => {
  const teamId = await keyrun.newTeam();
  const stream = keyrun.keys.watchKeys({ teamId })[Symbol.asyncIterator]();
  expect((await stream.next()).value?.event.case).toBe("opened");
  const ended = refusedCall(stream.next());
  await keyrun.teams.deleteTeam({ teamId });
  expect(await ended).toMatchObject({ code: Code.NotFound, reason: "TEAM_NOT_FOUND" });
});

test("requests of the last minute still count for a new team with the id, so no deletion frees the limit", async () => {
  const teamId = await keyrun.newTeam();
  const key = await keyrun.newKey(teamId);
  for (let n = 0; n < 3; n++) await run(key.value);
  await keyrun.keys.revokeKey({ teamId, keyId: key.id });
  await keyrun.teams.deleteTeam({ teamId });
  await keyrun.teams.createTeam({ team: { id: teamId, plan: Plan.FREE } });
  const remaining = async () => (await keyrun.teams.getRateLimit({ teamId })).rateLimit?.remaining;
  expect(await remaining()).toBe(57);
  clock.advance(60_001);
  expect(await remaining()).toBe(60);
});

describe("an error names what it is about, and repeats nothing that may be a secret:", () => {
  test("an app and a key that are not there", async () => {
    const teamId = await keyrun.newTeam();
    expect(await refusedCall(keyrun.apps.getApp({ appId: "shuot" }))).toMatchObject({
      reason: "APP_NOT_FOUND",
      metadata: { app_id: "shuot" },
      words: "There is no app `shuot`.",
    });
    const keyId = "7k3f0m9x2a4c6e8g1j5n7p9q";
    expect(await refusedCall(keyrun.keys.revokeKey({ teamId, keyId }))).toMatchObject({
      reason: "KEY_NOT_FOUND",
      metadata: { team_id: teamId, key_id: keyId },
      words: `Team \`${teamId}\` has no key \`${keyId}\`.`,
    });
  });

  test("a key that was sent in the place of an id", async () => {
    const { value, teamId } = await keyrun.newKey(await keyrun.newTeam());
    const secret = value.slice(29);
    const { teams, keys, apps } = keyrun;
    for (const call of [
      () => keys.revokeKey({ teamId, keyId: value }),
      () => keys.listKeys({ teamId: value }),
      () => teams.getTeam({ teamId: value }),
      () => teams.deleteTeam({ teamId: value }),
      () => teams.updateTeam({ team: { id: value, plan: Plan.PRO }, updateMask: { paths: ["plan"] } }),
      () => apps.getApp({ appId: value }),
    ]) {
      expect(JSON.stringify(await refusedCall(call()))).not.toContain(secret.slice(0, 8));
    }
  });
});
