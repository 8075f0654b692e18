import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Keyrun } from "../harness/keyrun.ts";
import { servedRun } from "../harness/keyrun-process.ts";
import { soon } from "../harness/soon.ts";
import { fleetMissing, startTwoKeyruns, type TwoKeyruns } from "../harness/two-keyruns.ts";

const limits = (free: number) => ({ settings: { KEYRUN_PLAN_LIMITS: `free=${free}` } });

describe.skipIf(fleetMissing() !== undefined)("the limits of plans in a fleet", () => {
  let fleet: TwoKeyruns;
  beforeAll(async () => {
    fleet = await startTwoKeyruns({ each: [limits(100), limits(5_000)] });
  });
  afterAll(() => fleet.close());

  /** The limit that the headers of a run tell. */
  async function limitAt({ publicUrl }: Keyrun, value: string): Promise<number> {
    const { headers } = await servedRun(publicUrl, { value, appId: "echo", text: "x" });
    return Number(headers.get("ratelimit-limit"));
  }

  test("stay those of the newest instance when it leaves: an older one takes nothing away without a barrier", async () => {
    const { one, other, start } = fleet;
    const { value } = await one.newKey(await one.newTeam());
    await soon(() => limitAt(one, value)).toBe(5_000);
    await other.close();
    await soon(() => one.metric("keyrun_fleet_instances")).toBe(1);
    expect(await limitAt(one, value)).toBe(5_000);
    // A newer instance brings its own, and they hold for all as soon as it serves.
    const third = await start(limits(50));
    expect(await limitAt(one, value)).toBe(50);
    await third.close();
    expect(await limitAt(one, value)).toBe(50);
  });
});
