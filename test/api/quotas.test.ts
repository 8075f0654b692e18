import { describe, expect, test } from "vitest";
import { VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { QuotaPeriod } from "#gen/keyrun/v1/quota_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_QUOTAS: "free=3/day" } }));
await keyrun.apps.createApp({ app: { id: "guarded", backend: { kind: { case: "guard", value: {} } } } });

const post = (path: string, key: string, headers: Record<string, string> = {}) =>
  fetch(`${keyrun.publicUrl}/api/apps/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({ text: "hello" }),
  });
const entries = [
  { entry: "a run", send: (key: string) => post("echo/run", key) },
  { entry: "a stream", send: (key: string) => post("echo/stream", key) },
  {
    entry: "a run in the background",
    send: (key: string) => post("echo/run", key, { prefer: "respond-async" }),
  },
  { entry: "a guarded request", send: (key: string) => post("guarded/guard", key) },
];

describe("the quota of a plan", () => {
  test.each(entries)("counts $entry, and refuses the fourth of three with every header", async ({ send }) => {
    const { value } = await keyrun.newKey(await keyrun.newTeam());
    for (let n = 1; n <= 3; n += 1) {
      const answer = await send(value);
      expect(answer.status).toBeLessThan(300);
      expect(answer.headers.get("ratelimit")).toContain(`"team-day";r=${3 - n};t=`);
      expect(answer.headers.get("ratelimit-limit")).toBe("60");
      await answer.arrayBuffer();
    }
    const refused = await send(value);
    const { error } = (await refused.json()) as { error: { code: string; details: object[] } };
    expect([refused.status, error.code]).toEqual([429, "quota_exceeded"]);
    expect(JSON.stringify(error.details)).toContain('"subject":"team"');
    const { headers } = refused;
    expect(headers.get("x-should-retry")).toBe("false");
    expect(headers.get("retry-after-ms")).toBeNull();
    const waitS = Number(headers.get("retry-after"));
    expect(waitS).toBeGreaterThan(0);
    expect(waitS).toBeLessThanOrEqual(86_400);
    expect([headers.get("ratelimit-limit"), headers.get("ratelimit-remaining")]).toEqual(["3", "0"]);
    expect(Number(headers.get("ratelimit-reset")) % 86_400).toBe(0);
  });

  test("VerifyKey takes its cost whole or not at all, and a grant lets it pass once", async () => {
    const teamId = await keyrun.newTeam();
    const { value } = await keyrun.newKey(teamId);
    const verify = async (cost: number) => (await keyrun.keys.verifyKey({ value, cost })).verdict;
    expect(await verify(2)).toBe(Verdict.VALID);
    expect(await verify(2)).toBe(Verdict.QUOTA_EXCEEDED);
    const grant = { teamId, requests: 1n, requestId: "8d5f3b1e-6c0a-4b7e-9d2f-1a3c5e7f9b0d" };
    for (let n = 0; n < 2; n += 1) {
      const { quota } = await keyrun.teams.grantRequests(grant);
      expect(quota).toMatchObject({ limit: 3n, granted: 1n, period: QuotaPeriod.DAY });
    }
    expect(await verify(2)).toBe(Verdict.VALID);
    expect(await verify(1)).toBe(Verdict.QUOTA_EXCEEDED);
  });

  test("a rotation gives a key no request more", async () => {
    const teamId = await keyrun.newTeam();
    const quota = { requests: 2n, period: QuotaPeriod.MONTH };
    const { key, value } = await keyrun.keys.createKey({ teamId, quota });
    expect((await post("echo/run", value)).status).toBe(200);
    const rotated = await keyrun.keys.rotateKey({ teamId, keyId: key?.id ?? "" });
    const answer = await post("echo/run", rotated.value);
    expect(answer.headers.get("ratelimit")).toMatch(/"team-day";r=1;t=\d+, "key-month";r=0;t=\d+$/);
    const refused = await post("echo/run", rotated.value);
    expect(refused.status).toBe(429);
    expect(await refused.text()).toContain("The key has used its 2 requests of this month");
  });
});
