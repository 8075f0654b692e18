import { afterAll, beforeAll, expect, test } from "vitest";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import { servedRun } from "../harness/keyrun-process.ts";
import { leakReporters, reportedBy } from "./leak-reporters.ts";

describeFleet("here")("in a fleet", () => {
  let fleet: FleetHere;
  beforeAll(async () => {
    fleet = await startFleet({ in: "here", settings: { KEYRUN_PLAN_LIMITS: "free=100000" } });
  });
  afterAll(() => fleet.close());
  const reporterOf = ({ publicUrl }: { publicUrl: string }) =>
    leakReporters["REST over HTTP/1.1"]!(publicUrl);

  test("a key that is reported on one instance is refused by the very next run on the other", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    for (let n = 0; n < 10; n++) {
      const { value } = await one.newKey(teamId);
      const statusOn = async ({ publicUrl }: { publicUrl: string }) =>
        (await servedRun(publicUrl, { value })).status;
      await expect.poll(() => statusOn(other)).toBe(200);
      expect((await reportedBy(reporterOf(one), value)).reason).toBe("OK");
      expect(await statusOn(other)).toBe(401);
    }
  });

  test("reports on both instances at once are one revocation, and each repeat has its time", async () => {
    const [one, other] = fleet.members;
    const { value } = await one.newKey(await one.newTeam());
    const reports = [one, other, one, other].map((each) => reportedBy(reporterOf(each), value));
    const outcomes = await Promise.all(reports);
    outcomes.push(await reportedBy(reporterOf(other), value));
    expect(outcomes.map(({ reason }) => reason)).toEqual(Array(5).fill("OK"));
    expect(new Set(outcomes.map(({ answer }) => answer?.revokeTime)).size).toBe(1);
  });
});
