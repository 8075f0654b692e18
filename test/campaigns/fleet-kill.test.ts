import { expect, test } from "vitest";
import { campaignSize } from "../harness/campaigns.ts";
import { describeFleet } from "../harness/fleet.ts";
import { inFleet, keyWriter, killAndCheck } from "../harness/kills.ts";

const cycles = campaignSize("fleet-kills");

describeFleet("processes")("three instances that create and revoke keys", () => {
  test(`kill -9 of one in the middle of writes loses and revives no key on any, ${cycles} times over`, {
    timeout: 180_000 + cycles * 60_000,
  }, async () => {
    const writer = keyWriter();
    await killAndCheck(await inFleet(3), writer, cycles);
    expect(writer.figures()["revocations acknowledged"]).toBeGreaterThan(5 * cycles);
  });
});
