import { MongoClient } from "mongodb";
import { afterAll, beforeAll, expect, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import type { IssuedKey } from "../harness/keyrun.ts";
import { restRun, servedRun } from "../harness/keyrun-process.ts";

let fleet: Fleet;
let client: MongoClient;

const control = () =>
  client.db().collection<{ _id: string; leases: Record<string, { state: string }> }>("control");
const statusesBy = (run: typeof restRun, { value }: IssuedKey) =>
  Promise.all(fleet.members.map(async ({ publicUrl }) => (await run(publicUrl, { value })).status));
/** At this moment: 503 of an instance that has no lease. */
const statuses = (key: IssuedKey) => statusesBy(restRun, key);
/** Once each instance has its lease: on a busy machine it may lose it for a moment. */
const servedStatuses = (key: IssuedKey) => statusesBy(servedRun, key);
/** The records of instances that are alive. */
const liveRecords = async () => {
  const { leases = {} } = (await control().findOne()) ?? {};
  return Object.values(leases).filter(({ state }) => state === "live");
};

describeFleet("processes")("a backup whose collection `control` is restored too", () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes", size: 2 });
    client = await MongoClient.connect(fleet.joining().KEYRUN_MONGODB_URI ?? "");
  });
  afterAll(async () => {
    await client?.close();
    await fleet?.close();
  });

  test("under instances that were not stopped: the next revocation is final on all of them", async () => {
    const manager = fleet.manage();
    const teamId = await manager.newTeam();
    const backup = await control().findOne();
    for (let n = 0; n < 5; n++) {
      const { id: keyId } = await manager.newKey(teamId);
      await manager.keys.revokeKey({ teamId, keyId });
    }
    const key = await manager.newKey(teamId);
    expect(await servedStatuses(key)).toEqual([200, 200]);
    await control().replaceOne({ _id: "control" }, backup ?? { leases: {} });
    await manager.keys.revokeKey({ teamId, keyId: key.id });
    // An instance that joins anew answers 503 meanwhile.
    const attempt = async () => {
      const after = await statuses(key);
      expect(after).not.toContain(200);
      return after;
    };
    expect(
      await eventually(
        attempt,
        whileAnswer((after) => after.includes(503)),
      ),
    ).toEqual([401, 401]);
  });

  test("under none: the records of those who were alive stop neither a start nor a revocation", async () => {
    // Those of before are taken out, and each instance has joined anew.
    await expect.poll(async () => (await liveRecords()).length).toBe(2);
    const backup = await control().findOne();
    for (const member of fleet.members) await member.stop();
    await control().replaceOne({ _id: "control" }, backup ?? { leases: {} });
    const beganMs = performance.now();
    for (const member of fleet.members) await member.start();
    const startedMs = performance.now();
    const manager = fleet.manage();
    const teamId = await manager.newTeam();
    const key = await manager.newKey(teamId);
    expect(await servedStatuses(key)).toEqual([200, 200]);
    await manager.keys.revokeKey({ teamId, keyId: key.id });
    // On a busy machine an instance may lose its lease for a moment. It admits nothing then.
    const after = await statuses(key);
    expect(after.filter((status) => status !== 401 && status !== 503)).toEqual([]);
    expect(await servedStatuses(key)).toEqual([401, 401]);
    const [starts, revocation] = [startedMs - beganMs, performance.now() - startedMs];
    figure("two starts after a restore", starts, "ms");
    figure("then to a revocation", revocation, "ms");
  });
});
