import { ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { TeamState } from "#gen/keyrun/v1/team_pb.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { storeOfTier } from "../harness/mongo-databases.ts";
import { createSteps } from "./stepped-stores.ts";

/** The steps of a deletion, in their order. */
const deletion = [
  "teams.update",
  "keys.countActive",
  "apps.limitedTo",
  "members.removeAll",
  "serviceTokens.leaveTeam",
  "keys.deleteAll",
  "runs.deleteAll",
  "teams.delete",
] as const;

/** "ok", or the reason of the refusal. */
function outcomeOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "ok",
    (thrown) => ConnectError.from(thrown).findDetails(ErrorInfoSchema)[0]?.reason ?? String(thrown),
  );
}

const echo = { kind: { case: "echo" as const, value: {} } };

describe.each(storeOfTier())("with %s", (_, settings) => {
  describe("a deletion of a team", () => {
    const steps = createSteps([...deletion, "keys.insert", "members.add", "apps.insert", "apps.update"]);
    let keyrun: Keyrun;
    beforeAll(async () => {
      keyrun = await startKeyrun({ settings: settings(), onStores: steps.wrap });
    });
    afterAll(() => keyrun.close());

    const deleteTeam = (teamId: string) => outcomeOf(keyrun.teams.deleteTeam({ teamId }));
    const createKey = (teamId: string) => outcomeOf(keyrun.keys.createKey({ teamId }));
    const stateOf = async (teamId: string) => (await keyrun.teams.getTeam({ teamId })).team?.state;

    /** A new team under the id has nothing that the deleted one had. */
    async function expectNothingLeft(teamId: string) {
      expect(await outcomeOf(keyrun.teams.getTeam({ teamId }))).toBe("TEAM_NOT_FOUND");
      await keyrun.teams.createTeam({ team: { id: teamId } });
      expect(await keyrun.keys.listKeys({ teamId, showRevoked: true })).toMatchObject({
        keys: [],
        activeKeyCount: 0,
        revokedKeyCount: 0,
      });
      expect((await keyrun.teams.listMembers({ teamId })).members).toEqual([]);
    }

    /** A new team under the id, with a member and a key: "ok", or the first refusal. */
    const createFull = (teamId: string) =>
      outcomeOf(
        (async () => {
          await keyrun.teams.createTeam({ team: { id: teamId } });
          await keyrun.teams.addMember({ teamId, email: "ada@example.com" });
          await keyrun.keys.createKey({ teamId });
        })(),
      );
    const fullTeam = { emails: ["ada@example.com"], activeKeyCount: 1 };
    async function contentOf(teamId: string) {
      const { members } = await keyrun.teams.listMembers({ teamId });
      const { activeKeyCount } = await keyrun.keys.listKeys({ teamId });
      return { emails: members.map(({ email }) => email), activeKeyCount };
    }
    /** Gives calls the time of many other calls: they are done then, or they wait. */
    async function answerOthers() {
      for (let n = 0; n < 50; n++) await keyrun.teams.listTeams({ pageSize: 1 });
    }

    test("goes through its steps in this order", async () => {
      const teamId = await keyrun.newTeam();
      steps.before(99, async () => {});
      expect(await deleteTeam(teamId)).toBe("ok");
      expect(steps.reset()).toEqual(deletion);
    });

    test.each(deletion.map((name, n) => [name, n] as const))(
      "and a key that is created before the step %s never both succeed",
      async (_name, n) => {
        const teamId = await keyrun.newTeam();
        let created = "";
        steps.before(n, async () => {
          created = await createKey(teamId);
        });
        const deleted = await deleteTeam(teamId);
        steps.reset();
        // Before the mark is there, the key comes first; from then on, the deletion does.
        if (n === 0) {
          expect([created, deleted]).toEqual(["ok", "TEAM_HAS_KEYS"]);
          expect(await stateOf(teamId)).toBe(TeamState.ACTIVE);
          expect(await createKey(teamId)).toBe("ok");
        } else {
          expect([created, deleted]).toEqual(["TEAM_ENDING", "ok"]);
          await expectNothingLeft(teamId);
        }
      },
    );

    test.each(deletion.slice(1).map((name, n) => [name, n + 1] as const))(
      "refuses a member, an app and more requests for the team before the step %s",
      async (_name, n) => {
        const teamId = await keyrun.newTeam();
        const app = { id: `for-${teamId}`, backend: echo };
        await keyrun.apps.createApp({ app: { ...app, id: `was-${teamId}` } });
        const outcomes: string[] = [];
        steps.before(n, async () => {
          const change = {
            app: { id: `was-${teamId}`, teamIds: [teamId] },
            updateMask: { paths: ["team_ids"] },
          };
          outcomes.push(
            await outcomeOf(keyrun.teams.addMember({ teamId, email: "ada@example.com" })),
            await outcomeOf(keyrun.apps.createApp({ app: { ...app, teamIds: [teamId] } })),
            await outcomeOf(keyrun.apps.updateApp(change)),
            await outcomeOf(keyrun.teams.grantRequests({ teamId, requests: 1n })),
            await outcomeOf(keyrun.teams.createTeam({ team: { id: teamId } })),
          );
        });
        expect(await deleteTeam(teamId)).toBe("ok");
        steps.reset();
        expect(outcomes).toEqual([...Array(4).fill("TEAM_ENDING"), "TEAM_EXISTS"]);
        expect(await outcomeOf(keyrun.apps.getApp({ appId: app.id }))).toBe("APP_NOT_FOUND");
        await expectNothingLeft(teamId);
      },
    );

    test("in the middle of other writes leaves nothing of them, or is refused", async () => {
      const writes: Record<string, (teamId: string) => Promise<unknown>> = {
        key: (teamId) => keyrun.keys.createKey({ teamId }),
        member: (teamId) => keyrun.teams.addMember({ teamId, email: "ada@example.com" }),
        app: (teamId) =>
          keyrun.apps.createApp({ app: { id: `mid-${teamId}`, backend: echo, teamIds: [teamId] } }),
      };
      for (const [what, write] of Object.entries(writes)) {
        const teamId = await keyrun.newTeam();
        let deleted = "";
        // The first watched call of these writes is the write itself.
        steps.before(0, async () => {
          deleted = await deleteTeam(teamId);
        });
        const outcome = await outcomeOf(write(teamId));
        steps.reset();
        expect([what, outcome, deleted]).toEqual([what, "TEAM_NOT_FOUND", "ok"]);
        expect(await outcomeOf(keyrun.apps.getApp({ appId: `mid-${teamId}` }))).toBe("APP_NOT_FOUND");
        await expectNothingLeft(teamId);
      }
    });

    test("and a new team with its id in the middle of other writes leaves nothing of them", async () => {
      const email = "ada@example.com";
      const writes: Record<string, (teamId: string) => Promise<unknown>> = {
        key: (teamId) => keyrun.keys.createKey({ teamId }),
        member: (teamId) => keyrun.teams.addMember({ teamId, email }),
        "member again": (teamId) => keyrun.teams.addMember({ teamId, email }),
        app: (teamId) =>
          keyrun.apps.createApp({ app: { id: `anew-${teamId}`, backend: echo, teamIds: [teamId] } }),
      };
      for (const [what, write] of Object.entries(writes)) {
        const teamId = await keyrun.newTeam();
        if (what === "member again") await keyrun.teams.addMember({ teamId, email });
        let replaced: string[] = [];
        // The first watched call of these writes is the write itself.
        steps.before(0, async () => {
          const deleted = await deleteTeam(teamId);
          replaced = [deleted, await outcomeOf(keyrun.teams.createTeam({ team: { id: teamId } }))];
        });
        const outcome = await outcomeOf(write(teamId));
        steps.reset();
        expect([what, outcome, ...replaced]).toEqual([what, "TEAM_NOT_FOUND", "ok", "ok"]);
        expect([what, await contentOf(teamId)]).toEqual([what, { emails: [], activeKeyCount: 0 }]);
        expect(await outcomeOf(keyrun.apps.getApp({ appId: `anew-${teamId}` }))).toBe("APP_NOT_FOUND");
      }
    });

    test("and a new team with its id keep a member whom the new team has by then", async () => {
      const teamId = await keyrun.newTeam();
      steps.before(0, async () => {
        await deleteTeam(teamId);
        expect(await createFull(teamId)).toBe("ok");
      });
      const added = await outcomeOf(keyrun.teams.addMember({ teamId, email: "ada@example.com" }));
      steps.reset();
      expect(added).toBe("TEAM_NOT_FOUND");
      expect(await contentOf(teamId)).toEqual(fullTeam);
    });

    test.each([
      ["takes", () => Promise.resolve()],
      ["and a new team with its id take", (id: string) => keyrun.teams.createTeam({ team: { id } })],
    ] as const)("%s an app that is being limited to the team back to its teams", async (_words, andThen) => {
      const [teamId, other] = [await keyrun.newTeam(), await keyrun.newTeam()];
      const id = `back-${teamId}`;
      await keyrun.apps.createApp({ app: { id, backend: echo, teamIds: [other] } });
      steps.before(0, async () => {
        await deleteTeam(teamId);
        await andThen(teamId);
      });
      const change = { app: { id, teamIds: [teamId] }, updateMask: { paths: ["team_ids"] } };
      expect(await outcomeOf(keyrun.apps.updateApp(change))).toBe("TEAM_NOT_FOUND");
      steps.reset();
      expect((await keyrun.apps.getApp({ appId: id })).app?.teamIds).toEqual([other]);
    });

    test.each(["members.removeAll", "keys.deleteAll"] as const)(
      "that is repeated takes nothing from a new team with the id, created before its %s",
      async (name) => {
        const teamId = await keyrun.newTeam();
        expect(await deleteTeam(teamId)).toBe("ok");
        let created: Promise<string> | undefined;
        const first = ["teams.update", "members.removeAll", "serviceTokens.leaveTeam", "keys.deleteAll"];
        // The repeated one finds no team to mark, and only finishes what the first one left.
        steps.before(first.indexOf(name), async () => {
          created = createFull(teamId);
          await answerOthers();
        });
        const again = await deleteTeam(teamId);
        expect([again, await created]).toEqual(["TEAM_NOT_FOUND", "ok"]);
        const called = steps.reset();
        expect(await contentOf(teamId)).toEqual(fullTeam);
        expect(called.slice(0, first.length)).toEqual(first);
      },
    );

    test("leaves an id that two calls give to a new team at once: one does, and that team keeps all", async () => {
      const teamId = await keyrun.newTeam();
      expect(await deleteTeam(teamId)).toBe("ok");
      let second: Promise<string> | undefined;
      steps.before(0, async () => {
        second = createFull(teamId);
        await answerOthers();
      });
      const first = await createFull(teamId);
      const outcomes = [first, await second];
      const called = steps.reset();
      expect(outcomes.sort()).toEqual(["TEAM_EXISTS", "ok"]);
      expect(await contentOf(teamId)).toEqual(fullTeam);
      const removed = ["members.removeAll", "serviceTokens.leaveTeam", "keys.deleteAll"];
      expect(called.slice(0, removed.length)).toEqual(removed);
    });

    describe.each(["before", "after"] as const)("that the store leaves alone %s it did", (when) => {
      test.each(deletion.map((name, n) => [name, n] as const))(
        "the step %s is finished by a second one",
        async (_name, n) => {
          const teamId = await keyrun.newTeam();
          await keyrun.teams.addMember({ teamId, email: "ada@example.com" });
          const key = await keyrun.newKey(teamId);
          await keyrun.keys.revokeKey({ teamId, keyId: key.id });
          steps.failFrom(n, when);
          expect(await deleteTeam(teamId)).toBe("UNAVAILABLE");
          steps.reset();
          const wasDone = n === deletion.length - 1 && when === "after";
          const second = await deleteTeam(teamId);
          expect(second).toBe(wasDone ? "TEAM_NOT_FOUND" : "ok");
          await expectNothingLeft(teamId);
        },
      );

      test("the step keys.countActive is undone by a second one, if the team is used by then", async () => {
        const teamId = await keyrun.newTeam();
        const key = await keyrun.newKey(teamId);
        steps.failFrom(1, when);
        expect(await deleteTeam(teamId)).toBe("UNAVAILABLE");
        steps.reset();
        expect(await createKey(teamId)).toBe("TEAM_ENDING");
        const { teams } = await keyrun.teams.listTeams({ pageSize: 100 });
        // The attempt to take the mark away failed, too: as a whole, or only its answer.
        const left = when === "before" ? TeamState.ENDING : TeamState.ACTIVE;
        expect(teams.find(({ id }) => id === teamId)?.state).toBe(left);
        expect(await deleteTeam(teamId)).toBe("TEAM_HAS_KEYS");
        expect(await createKey(teamId)).toBe("ok");
        expect((await keyrun.keys.listKeys({ teamId })).keys.at(-1)?.id).toBe(key.id);
      });
    });

    test("that races with creates leaves no key, or no create and no deletion undone", async () => {
      for (let round = 0; round < 12; round++) {
        const teamId = await keyrun.newTeam();
        const calls = Array.from({ length: 6 }, (_each, n) => async () => {
          for (let turn = 0; turn < (n * round) % 7; turn++) await new Promise(setImmediate);
          return createKey(teamId);
        });
        const [deleted, again, ...created] = await Promise.all([
          deleteTeam(teamId),
          deleteTeam(teamId),
          ...calls.map((call) => call()),
        ]);
        expect(again).toBe(deleted);
        const made = created.filter((each) => each === "ok").length;
        if (deleted === "ok") {
          expect(made).toBe(0);
          await expectNothingLeft(teamId);
        } else {
          expect(deleted).toBe("TEAM_HAS_KEYS");
          expect(await stateOf(teamId)).toBe(TeamState.ACTIVE);
          expect((await keyrun.keys.listKeys({ teamId })).activeKeyCount).toBe(made);
        }
        expect(created.filter((each) => !/^(ok|TEAM_ENDING|TEAM_NOT_FOUND)$/.test(each))).toEqual([]);
      }
    });
  });
});
