import { createClient } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KeyService, VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { QuotaPeriod } from "#gen/keyrun/v1/quota_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import type { CallerMaker } from "../harness/callers.ts";
import { type IssuedKey, type Keyrun, startKeyrun, tokenTransports } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { storeOfTier } from "../harness/mongo-databases.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, streamedRuns } from "../harness/stream-callers.ts";
import { backgroundCallers } from "./background-callers.ts";
import { everyCaller } from "./every-caller.ts";
import { createGuard, guardOnce } from "./guards.ts";

/** What a request got: the refusal's details, if it was refused, and the headers. */
interface Answer {
  readonly details?: readonly unknown[] | undefined;
  readonly message?: string;
  readonly headers: Headers;
}

/** One request with a key, by one of the entries. */
type Send = (url: string, value: string) => Promise<Answer>;

const entries: readonly (readonly [string, Send])[] = [
  ...Object.entries(everyCaller).map(([name, make]) => [`a run by ${name}`, oneRun(make)] as const),
  ...Object.entries({ ...restStreamCallers, ...connectStreamCallers }).map(
    ([name, make]) => [`a stream by ${name}`, oneRun(streamedRuns(make))] as const,
  ),
  ...Object.entries(backgroundCallers).map(([name, make]) => {
    const send: Send = async (url, value) => {
      const { reason, headers } = await make(url, value).start({ appId: "echo", text: "x" });
      return { details: reason === undefined ? undefined : [{ reason }], headers };
    };
    return [`a run in the background by ${name}`, send] as const;
  }),
  [
    "a guarded request",
    async (url, value) => {
      const { status, body, headers } = await guardOnce(url, { value });
      return { details: status === 200 ? undefined : JSON.parse(body).error.details, headers };
    },
  ],
];

function oneRun(make: CallerMaker, headers: Readonly<Record<string, string>> = {}): Send {
  return async (url, value) => {
    const caller = make(url);
    try {
      return await caller.run({ appId: "echo", text: "x", authorization: `Bearer ${value}`, headers });
    } finally {
      caller.close();
    }
  };
}

/** The numbers of a header by the names of their limits: `"team";r=57;t=60, "team-day";r=2;t=9`. */
function listed(headers: Headers, name: string): Record<string, number[]> {
  const items = [...(headers.get(name) ?? "").matchAll(/"([\w-]+)";[rq]=(\d+);[tw]=(\d+)/g)];
  return Object.fromEntries(items.map(([, of = "", first, second]) => [of, [Number(first), Number(second)]]));
}

describe.each(storeOfTier())("with %s", (_, settings) => {
  const clock = createManualClock({ monotonicMs: 0, unixMs: Date.parse("2026-01-15T12:00:00Z") });
  let keyrun: Keyrun;
  beforeAll(async () => {
    keyrun = await startKeyrun({
      clock,
      settings: {
        ...settings(),
        KEYRUN_PLAN_LIMITS: "team=2",
        KEYRUN_PLAN_QUOTAS: "free=3/day,pro=2/month,team=3/day",
      },
    });
    await createGuard(keyrun, "orders");
  });
  afterAll(() => keyrun.close());

  const run = (value: string, headers?: Record<string, string>) =>
    oneRun(restCaller, headers)(keyrun.publicUrl, value);
  const keyOn = async (plan: Plan, restrictions = {}): Promise<IssuedKey> =>
    keyrun.newKey(await keyrun.newTeam(plan), restrictions);
  /** Sets the clock to a time that is yet to come. */
  const at = (time: string, ms = 0) => clock.advance(Date.parse(time) + ms - clock.unixMs());
  const secondsToMidnight = () => 86_400 - Math.floor((clock.unixMs() / 1_000) % 86_400);

  test.each(entries)(
    "%s counts one, and past the quota it is refused until the day ends",
    async (_, send) => {
      const { value } = await keyOn(Plan.FREE);
      for (const left of [2, 1, 0]) {
        const { details, headers } = await send(keyrun.publicUrl, value);
        expect(details).toBeUndefined();
        expect(listed(headers, "ratelimit")).toMatchObject({
          team: [57 + left, 60],
          "team-day": [left, secondsToMidnight()],
        });
        expect(listed(headers, "ratelimit-policy")).toEqual({ team: [60, 60], "team-day": [3, 86_400] });
        expect(headers.get("ratelimit-limit")).toBe("60");
      }
      const { details, headers } = await send(keyrun.publicUrl, value);
      expect(details?.[0]).toMatchObject({ reason: "QUOTA_EXCEEDED" });
      const told = [
        "x-should-retry",
        "retry-after",
        "retry-after-ms",
        "ratelimit-limit",
        "ratelimit-remaining",
      ];
      const seconds = secondsToMidnight();
      expect(told.map((name) => headers.get(name))).toEqual(["false", String(seconds), null, "3", "0"]);
      expect(Number(headers.get("ratelimit-reset"))).toBe(Math.ceil(clock.unixMs() / 1_000) + seconds);
      expect(listed(headers, "ratelimit")).toMatchObject({ team: [57, 60], "team-day": [0, seconds] });
      clock.advance(seconds * 1_000);
      const next = await send(keyrun.publicUrl, value);
      expect(listed(next.headers, "ratelimit")["team-day"]).toEqual([2, 86_400]);
    },
  );

  test.each(Object.entries(everyCaller))("over %s the details name whose quota it is", async (_, make) => {
    const quota = { requests: 1n, period: QuotaPeriod.MONTH };
    const { value, teamId } = await keyOn(Plan.FREE, { quota });
    const send = oneRun(make);
    await send(keyrun.publicUrl, value);
    const ofKey = await send(keyrun.publicUrl, value);
    expect(ofKey.message).toMatch(/^The key has used its 1 requests of this month. Requests are accepted/);
    expect(ofKey.details).toMatchObject([
      { metadata: { subject: "key", limit: "1", period: "month" } },
      { violations: [{ subject: "key", description: ofKey.message }] },
      { retryDelay: "86400s" },
    ]);
    expect(ofKey.headers.get("retry-after")).toBe("86400");
    const other = await keyrun.newKey(teamId);
    for (let n = 0; n < 2; n += 1) await send(keyrun.publicUrl, other.value);
    const ofTeam = await send(keyrun.publicUrl, other.value);
    expect(ofTeam.details).toMatchObject([
      { metadata: { subject: "team", limit: "3", period: "day" } },
      {},
      {},
    ]);
  });

  test.each(Object.entries(tokenTransports))(
    "VerifyKey over %s takes its cost whole or not at all, and a grant lets it pass once",
    async (_, open) => {
      const { value, teamId } = await keyOn(Plan.FREE);
      const client = createClient(KeyService, open(keyrun.internalUrl, keyrun.serviceToken));
      const verify = async (cost: number) => await client.verifyKey({ value, cost });
      expect(await verify(2)).toMatchObject({ verdict: Verdict.VALID, quota: { limit: 3n, used: 2n } });
      expect(await verify(2)).toMatchObject({ verdict: Verdict.QUOTA_EXCEEDED, quota: { used: 3n } });
      const grant = { teamId, requests: 1n, requestId: "8d5f3b1e-6c0a-4b7e-9d2f-1a3c5e7f9b0d" };
      for (let n = 0; n < 2; n += 1) {
        const { quota } = await keyrun.teams.grantRequests(grant);
        expect(quota).toMatchObject({ limit: 3n, granted: 1n, period: QuotaPeriod.DAY });
      }
      expect((await verify(2)).verdict).toBe(Verdict.VALID);
      expect((await verify(1)).verdict).toBe(Verdict.QUOTA_EXCEEDED);
      expect((await verify(0)).verdict).toBe(Verdict.VALID);
    },
  );

  test("a repeat with its Idempotency-Key counts as it does for the limit, and so does a look at a run", async () => {
    const { value } = await keyOn(Plan.FREE);
    const headers = { "idempotency-key": "once" };
    await run(value, headers);
    const again = await run(value, headers);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(listed(again.headers, "ratelimit")).toMatchObject({
      team: [58, 60],
      "team-day": [1, expect.anything()],
    });
    await backgroundCallers["REST over HTTP/1.1"]!(keyrun.publicUrl, value).list();
    expect((await run(value, headers)).details?.[0]).toMatchObject({ reason: "QUOTA_EXCEEDED" });
  });

  test("what the limit a minute refuses counts nothing", async () => {
    const { value } = await keyOn(Plan.TEAM);
    const reasons = async (times: number) => {
      const all: unknown[] = [];
      for (let n = 0; n < times; n += 1) all.push((await run(value)).details?.[0] ?? {});
      return all.map((info) => (info as { reason?: string }).reason ?? "ok");
    };
    const limited = Array.from({ length: 4 }, () => "RATE_LIMIT_EXCEEDED");
    expect(await reasons(6)).toEqual(["ok", "ok", ...limited]);
    clock.advance(60_000);
    expect(await reasons(3)).toEqual(["ok", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"]);
  });

  test("a crowd at the end of two quotas gets exactly what there is, and all others are refused by a quota", async () => {
    const quota = { requests: 30n, period: QuotaPeriod.DAY };
    const { value, teamId } = await keyOn(Plan.PRO, { quota });
    await keyrun.teams.grantRequests({ teamId, requests: 40n });
    const other = await keyrun.newKey(teamId);
    const crowd = async (key: string, size: number) => {
      const answers = await Promise.all(Array.from({ length: size }, () => run(key)));
      const refused = answers.flatMap(({ details }) => details?.slice(0, 1) ?? []);
      for (const info of refused) expect(info).toMatchObject({ reason: "QUOTA_EXCEEDED" });
      return size - refused.length;
    };
    expect(await crowd(value, 100)).toBe(30);
    expect(await crowd(other.value, 50)).toBe(2 + 40 - 30);
  });

  test("another plan leaves used what is used of the same period, and the other period begins with nothing", async () => {
    const { value, teamId } = await keyOn(Plan.FREE);
    const move = (plan: Plan) =>
      keyrun.teams.updateTeam({ team: { id: teamId, plan }, updateMask: { paths: ["plan"] } });
    const left = async () => {
      const { headers } = await run(value);
      const { "team-day": day, "team-month": month } = listed(headers, "ratelimit");
      return { day: day?.[0], month: month?.[0] };
    };
    expect(await left()).toEqual({ day: 2 });
    await move(Plan.TEAM);
    expect(await left()).toEqual({ day: 1 });
    await move(Plan.PRO);
    expect(await left()).toEqual({ month: 1 });
    await move(Plan.FREE);
    expect(await left()).toEqual({ day: 0 });
    expect((await run(value)).details?.[0]).toMatchObject({ reason: "QUOTA_EXCEEDED" });
  });

  test("a rotation gives a key no request more", async () => {
    const quota = { requests: 2n, period: QuotaPeriod.MONTH };
    const { id: keyId, teamId, value } = await keyOn(Plan.FREE, { quota });
    await run(value);
    const rotated = await keyrun.keys.rotateKey({ teamId, keyId });
    const { headers } = await run(rotated.value);
    expect(listed(headers, "ratelimit")).toMatchObject({ "team-day": [1, expect.anything()] });
    expect(listed(headers, "ratelimit")["key-month"]?.[0]).toBe(0);
    expect((await run(rotated.value)).message).toContain("The key has used its 2 requests of this month");
  });

  // Each begins later than all before it: no period begins again.
  test.each([
    ["2027-01", 31, "2027-02"],
    ["2027-02", 28, "2027-03"],
    ["2027-04", 30, "2027-05"],
    ["2027-12", 31, "2028-01"],
    ["2028-02", 29, "2028-03"],
  ])(
    "the month %s has %i days, and the next one begins with its first millisecond",
    async (month, days, next) => {
      at(`${month}-01T00:00:00Z`);
      const { value, teamId } = await keyOn(Plan.PRO);
      const used = async () => (await keyrun.teams.getRateLimit({ teamId })).quota?.used;
      const first = await run(value);
      expect(listed(first.headers, "ratelimit-policy")["team-month"]).toEqual([2, days * 86_400]);
      expect(listed(first.headers, "ratelimit")["team-month"]).toEqual([1, days * 86_400]);
      at(`${next}-01T00:00:00Z`, -1);
      expect((await run(value)).details).toBeUndefined();
      expect(await used()).toBe(2n);
      const refused = await run(value);
      expect(refused.headers.get("retry-after")).toBe("1");
      expect(refused.message).toMatch(
        /^The team has used its 2 requests of this month, or .*Try again in 1 s\.$/,
      );
      clock.advance(1);
      expect(await used()).toBe(0n);
      expect((await run(value)).details).toBeUndefined();
      expect(await used()).toBe(1n);
    },
  );
});
