import { MongoClient } from "mongodb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Fleet, startFleet } from "../harness/fleet.ts";
import { missingFleetPrograms } from "../harness/fleet-programs.ts";
import { type IssuedKey, manage } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { mongodbUri } from "../harness/mongo-databases.ts";
import { printFigures } from "../harness/test-size.ts";

let fleet: Fleet;
let client: MongoClient;

const control = () => client.db().collection<{ _id: string; leases: object }>("control");
const statuses = ({ value }: IssuedKey) =>
  Promise.all(fleet.members.map(async ({ publicUrl }) => (await restRun(publicUrl, { value })).status));

const left = mongodbUri === "" || missingFleetPrograms().length > 0;

describe.skipIf(left)("a backup whose collection `control` is restored too", () => {
  beforeAll(async () => {
    fleet = await startFleet({ size: 2 });
    client = await MongoClient.connect(fleet.joining().KEYRUN_MONGODB_URI ?? "");
  });
  afterAll(async () => {
    await client?.close();
    await fleet?.close();
  });

  const timeout = { timeout: 120_000 };

  test(
    "under instances that were not stopped: the next revocation is final on all of them",
    timeout,
    async () => {
      const manager = fleet.manage();
      const teamId = await manager.newTeam();
      const backup = await control().findOne();
      for (let n = 0; n < 5; n++) {
        const { id: keyId } = await manager.newKey(teamId);
        await manager.keys.revokeKey({ teamId, keyId });
      }
      const key = await manager.newKey(teamId);
      expect(await statuses(key)).toEqual([200, 200]);
      await control().replaceOne({ _id: "control" }, backup ?? { leases: {} });
      await manager.keys.revokeKey({ teamId, keyId: key.id });
      // An instance that joins anew answers 503 meanwhile.
      let after = await statuses(key);
      while (after.includes(503)) {
        expect(after).not.toContain(200);
        after = await statuses(key);
      }
      expect(after).toEqual([401, 401]);
    },
  );

  test(
    "under none: the records of those who were alive stop neither a start nor a revocation",
    timeout,
    async () => {
      const backup = await control().findOne();
      expect(Object.keys(backup?.leases ?? {})).toHaveLength(2);
      for (const member of fleet.members) await member.stop();
      await control().replaceOne({ _id: "control" }, backup ?? { leases: {} });
      const beganMs = performance.now();
      for (const member of fleet.members) await member.start();
      const startedMs = performance.now();
      const manager = manage(fleet.members[0]!.internalUrl, fleet.serviceToken);
      const teamId = await manager.newTeam();
      const key = await manager.newKey(teamId);
      expect(await statuses(key)).toEqual([200, 200]);
      await manager.keys.revokeKey({ teamId, keyId: key.id });
      // On a busy machine an instance may lose its lease for a moment. It admits nothing then.
      const after = await statuses(key);
      expect(after.filter((status) => status !== 401 && status !== 503)).toEqual([]);
      await expect.poll(() => statuses(key), { timeout: 20_000 }).toEqual([401, 401]);
      manager.disconnect();
      const [starts, revocation] = [startedMs - beganMs, performance.now() - startedMs];
      printFigures(
        `after the restore: two starts ${starts.toFixed(0)} ms, then to a revocation ${revocation.toFixed(0)} ms`,
      );
    },
  );
});
