import { describe, expect, test } from "vitest";
import { QuotaPeriod } from "#gen/keyrun/v1/quota_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_QUOTAS: "pro=7/month" } }));
const quota = { requests: 1_000n, period: QuotaPeriod.DAY };

describe("the quota of a key", () => {
  test("is given at its creation, told in lists with its state, and kept by a rotation", async () => {
    const teamId = await keyrun.newTeam();
    const created = await keyrun.keys.createKey({ teamId, quota });
    expect(created.key?.quota).toMatchObject({ limit: 1_000n, period: QuotaPeriod.DAY });
    const rotated = await keyrun.keys.rotateKey({ teamId, keyId: created.key?.id ?? "" });
    expect(rotated.key?.quota).toMatchObject({ limit: 1_000n, period: QuotaPeriod.DAY });
    const { keys } = await keyrun.keys.listKeys({ teamId });
    const now = new Date();
    const tomorrow = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1) / 1_000;
    expect(keys).toHaveLength(1);
    expect(keys[0]?.quota).toMatchObject({ limit: 1_000n, used: 0n, granted: 0n });
    expect([tomorrow, tomorrow - 86_400]).toContain(Number(keys[0]?.quota?.resetTime?.seconds));
  });

  test("is refused by its field where it is none, and absent where none was given", async () => {
    const teamId = await keyrun.newTeam();
    const refused = keyrun.keys.createKey({ teamId, quota: { ...quota, requests: 0n } });
    await expect(refused).rejects.toThrow("quota.requests must be from 1 to 1000000000000.");
    expect((await keyrun.keys.createKey({ teamId })).key?.quota).toBeUndefined();
  });
});

test("a grant names how many requests, a UUID, and a team whose plan has a quota", async () => {
  const grant = (more: object) => keyrun.teams.grantRequests({ teamId: "demo", requests: 1n, ...more });
  for (const requests of [0n, -1n, 1_000_000_000_001n]) {
    await expect(grant({ requests })).rejects.toThrow("requests must be from 1 to 1000000000000.");
  }
  await expect(grant({ requestId: "twice" })).rejects.toThrow("request_id must be a UUID, or empty.");
  await expect(grant({ teamId: "nowhere" })).rejects.toThrow("There is no team `nowhere`.");
  await expect(grant({})).rejects.toThrow("The plan of team `demo` has no quota");
});
