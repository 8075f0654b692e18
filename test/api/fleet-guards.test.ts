import { afterAll, beforeAll, expect, test } from "vitest";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import type { Keyrun } from "../harness/keyrun.ts";
import { restRunOnce, servedRun } from "../harness/keyrun-process.ts";
import { createGuard, guardOnce } from "./guards.ts";

const limit = 200;

describeFleet("here")("guards of a fleet", () => {
  let fleet: FleetHere;
  beforeAll(async () => {
    fleet = await startFleet({ in: "here", settings: { KEYRUN_PLAN_LIMITS: `free=${limit}` } });
    await createGuard(fleet.members[0], "orders");
  });
  afterAll(() => fleet.close());

  /** Once the instance has what it needs: a busy machine may have stopped it for a second. */
  async function statusOf({ publicUrl }: Keyrun, value: string): Promise<number> {
    await servedRun(publicUrl, { value });
    return (await guardOnce(publicUrl, { value })).status;
  }

  test("of runs and guarded requests on two instances, exactly as many are accepted as the limit allows", async () => {
    const [one] = fleet.members;
    const teamId = await one.newTeam();
    const { value } = await one.newKey(teamId);
    const beganMs = performance.now();
    const uses = Array.from({ length: 2 * limit }, (_, n) => {
      const { publicUrl } = fleet.members[n % 2]!;
      return n % 4 < 2 ? guardOnce(publicUrl, { value }) : restRunOnce(publicUrl, { value });
    });
    const statuses = (await Promise.all(uses)).map(({ status }) => status);
    // Else the first of them are no longer counted.
    expect(performance.now() - beganMs).toBeLessThan(60_000);
    const count = (wanted: number) => statuses.filter((status) => status === wanted).length;
    // A busy machine may stop an instance for longer than its lease. What it refuses then may have
    // spent.
    expect(count(200) + count(429) + count(503)).toBe(2 * limit);
    expect(count(200)).toBeLessThanOrEqual(limit);
    expect(count(200) + count(503)).toBeGreaterThanOrEqual(limit);
  });

  test("a key that is revoked at one, and an app that is taken from its team there, are refused by the other's next answer", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    const { id: keyId, value } = await one.newKey(teamId);
    expect(await statusOf(other, value)).toBe(200);
    await one.keys.revokeKey({ teamId, keyId });
    expect((await guardOnce(other.publicUrl, { value })).status).toBe(401);

    const { value: second } = await one.newKey(teamId);
    expect(await statusOf(other, second)).toBe(200);
    const app = { id: "orders", teamIds: [await one.newTeam()] };
    await one.apps.updateApp({ app, updateMask: { paths: ["team_ids"] } });
    expect((await guardOnce(other.publicUrl, { value: second })).status).toBe(404);
  });
});
