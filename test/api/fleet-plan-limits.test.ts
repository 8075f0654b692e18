import { afterAll, beforeAll, expect, test } from "vitest";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import type { Keyrun } from "../harness/keyrun.ts";
import { servedRun } from "../harness/keyrun-process.ts";

const limits = (free: number) => ({ settings: { KEYRUN_PLAN_LIMITS: `free=${free}` } });

describeFleet("here")("the limits of plans in a fleet", () => {
  let fleet: FleetHere;
  beforeAll(async () => {
    fleet = await startFleet({ in: "here", each: [limits(100), limits(5_000)] });
  });
  afterAll(() => fleet.close());

  /** The limit that the headers of a run tell. */
  async function limitAt({ publicUrl }: Keyrun, value: string): Promise<number> {
    const { headers } = await servedRun(publicUrl, { value, appId: "echo", text: "x" });
    return Number(headers.get("ratelimit-limit"));
  }

  test("stay those of the newest instance when it leaves: an older one takes nothing away without a barrier", async () => {
    const {
      start,
      members: [one, other],
    } = fleet;
    const { value } = await one.newKey(await one.newTeam());
    await expect.poll(() => limitAt(one, value)).toBe(5_000);
    await other.close();
    await expect.poll(() => one.metric("keyrun_fleet_instances")).toBe(1);
    expect(await limitAt(one, value)).toBe(5_000);
    // A newer instance brings its own, and they hold for all as soon as it serves.
    const third = await start(limits(50));
    expect(await limitAt(one, value)).toBe(50);
    await third.close();
    expect(await limitAt(one, value)).toBe(50);
  });
});
