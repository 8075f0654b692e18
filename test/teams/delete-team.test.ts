import { expect, onTestFinished, test } from "vitest";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { createDeleteTeam, type DeleteTeamParts } from "#src/teams/delete-team.ts";
import { tempFolders } from "../harness/closed-at-end.ts";

const folders = tempFolders();

const email = "ada@example.com";
const team = { id: "demo", displayName: "Demo", plan: "free", createTimeMs: 1 } as const;

/**
 * Two instances on one store. The first one stops in its turn before a step, and wakes up only
 * after the second one has had the id.
 */
async function twoInstances() {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(() => stores.close());
  const { teams: store, members } = stores;
  const deleted: string[] = [];
  const parts: DeleteTeamParts = {
    ...{ store, members },
    dependents: {
      countActiveKeys: stores.keys.countActive,
      appsLimitedTo: stores.apps.limitedTo,
      async deleteKeys(_, before) {
        before();
        deleted.push("keys");
      },
      async deleteRunRecords(_, before) {
        before();
        deleted.push("records");
      },
      async deleteQuotas(_, before) {
        before();
      },
      async deleteUsage(_, before) {
        before();
        deleted.push("usage");
      },
      async leaveServiceTokens(_, before) {
        before();
        deleted.push("service tokens");
      },
      teamDeleted: () => {},
    },
    changeSecurityState: async <W>(_: unknown, write: () => Promise<W>) => await write(),
  };
  let isValid = true;
  const held = async () => ({ isValid: () => isValid, release: async () => {} });
  /** The first instance, whose turn passes during this step. */
  const passing = <P extends object, M extends keyof P>(
    port: P,
    method: M,
    meanwhile: () => Promise<void>,
  ) => ({
    ...port,
    [method]: async (...given: unknown[]) => {
      isValid = false;
      await meanwhile();
      return (port[method] as (...given: unknown[]) => unknown)(...given);
    },
  });
  const other = createDeleteTeam(parts);
  const contents = async () => ({
    state: (await store.find("demo"))?.state,
    members: (await members.list({ teamId: "demo", limit: 5 })).length,
  });
  return { stores, parts, held, passing, other, contents, deleted };
}

test("an instance that wakes up in the middle of a deletion takes nothing from the new team of the id", async () => {
  const { stores, parts, held, passing, other, contents, deleted } = await twoInstances();
  await stores.teams.insert(team);
  const dependents = passing(parts.dependents, "appsLimitedTo", async () => {
    await other.delete("demo");
    await other.clearIdFor("demo", () => stores.teams.insert({ ...team, createTimeMs: 2 }));
    await stores.members.add({ teamId: "demo", email, createTimeMs: 2 });
    deleted.length = 0;
  });
  const sleeper = createDeleteTeam({ ...parts, dependents, lockTeam: held });
  await expect(sleeper.delete("demo")).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(await contents()).toEqual({ state: "active", members: 1 });
  expect(deleted).toEqual([]);
});

test("an instance that wakes up does not take away the mark of another's deletion", async () => {
  const { stores, parts, held, passing, contents } = await twoInstances();
  await stores.teams.insert(team);
  const dependents = passing(
    { ...parts.dependents, countActiveKeys: async () => 1 },
    "appsLimitedTo",
    async () => {},
  );
  const counting = passing(dependents, "countActiveKeys", async () => {
    await stores.teams.update("demo", { state: "ending" });
  });
  const sleeper = createDeleteTeam({ ...parts, dependents: counting, lockTeam: held });
  await expect(sleeper.delete("demo")).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect((await contents()).state).toBe("ending");
});

test("an instance that wakes up while it clears an id takes nothing from the team that got it", async () => {
  const { stores, parts, held, passing, other, contents } = await twoInstances();
  await stores.teams.insert(team);
  await other.delete("demo");
  const store = passing(parts.store, "deletedVersion", async () => {});
  const sleeper = createDeleteTeam({
    ...parts,
    lockTeam: held,
    store: {
      ...store,
      async deletedVersion(id) {
        const version = await store.deletedVersion(id);
        await other.clearIdFor("demo", () => stores.teams.insert(team));
        await stores.members.add({ teamId: "demo", email, createTimeMs: 2 });
        return version;
      },
    },
  });
  const cleared = sleeper.clearIdFor("demo", () => stores.teams.insert(team));
  await expect(cleared).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(await contents()).toEqual({ state: "active", members: 1 });
});
