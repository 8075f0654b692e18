import { Code, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { restrictedAppsMax } from "#src/keys/read-restrictions.ts";
import { reasons } from "#src/refusal/reasons.ts";
import type { Caller, RunOutcome } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, streamedRuns } from "../harness/stream-callers.ts";
import { everyCaller } from "./every-caller.ts";

const clock = createManualClock({ monotonicMs: 0, unixMs: 1_700_000_000_000 });

const keyrun = closedAtEnd(
  await startKeyrun({
    clock: { monotonicMs: clock.monotonicMs, unixMs: () => Math.floor(clock.unixMs()) },
    settings: { KEYRUN_PLAN_LIMITS: "free=5,pro=20" },
  }),
);
for (const id of ["one", "other"]) {
  await keyrun.apps.createApp({ app: { id, backend: { kind: { case: "echo", value: {} } } } });
}

const streamed = { ...restStreamCallers, ...connectStreamCallers };
const callers = {
  ...everyCaller,
  ...Object.fromEntries(
    Object.entries(streamed).map(([name, make]) => [`a stream of ${name}`, streamedRuns(make)]),
  ),
};

describe.each(Object.entries(callers))("%s", (_, make) => {
  let caller: Caller;
  beforeAll(() => {
    caller = make(keyrun.publicUrl);
  });
  afterAll(() => caller.close());
  const run = (value: string, appId: string) =>
    caller.run({ appId, text: "x", authorization: `Bearer ${value}` });

  test("a key restricted to apps runs those, and is refused on any other, whether or not it exists; each counts", async () => {
    const team = await keyrun.newTeam();
    const { value } = await keyrun.newKey(team, { appIds: ["one", "echo"] });
    expect(await run(value, "one")).toMatchObject({ kind: "ok" });
    for (const [n, appId] of ["other", "nowhere", "Not-An-Id"].entries()) {
      const refused = await run(value, appId);
      expect(factsOf(refused)).toEqual({
        ...{ reason: "APP_NOT_ALLOWED", metadata: { app_id: appId }, message: reasons.APP_NOT_ALLOWED.words },
        ...{ limit: "5", remaining: String(3 - n), retryAfter: null },
        ...{ list: `"team";r=${3 - n};t=60`, policy: '"team";q=5;w=60' },
      });
      expect(refused).toMatchObject({ kind: "refused", code: Code.PermissionDenied });
    }
    expect(await run(value, "echo")).toMatchObject({ kind: "ok" });
  });

  test("the order of decisions is key, limits, the key's apps, the app", async () => {
    const team = await keyrun.newTeam();
    const restricted = await keyrun.newKey(team, { appIds: ["one"], requestsPerMinute: 2 });
    const reasonOn = async (appId: string) => factsOf(await run(restricted.value, appId)).reason;
    expect(await reasonOn("nowhere")).toBe("APP_NOT_ALLOWED");
    expect(await reasonOn("other")).toBe("APP_NOT_ALLOWED");
    expect(await reasonOn("other")).toBe("RATE_LIMIT_EXCEEDED");
    await keyrun.keys.revokeKey({ teamId: team, keyId: restricted.id });
    expect(await reasonOn("other")).toBe("REVOKED_API_KEY");
    const { value } = await keyrun.newKey(team);
    expect(factsOf(await run(value, "nowhere")).reason).toBe("APP_NOT_FOUND");
  });

  test("with a limit of its own both are listed, and the other numbers are those of the one with fewer left", async () => {
    const team = await keyrun.newTeam();
    const plain = await keyrun.newKey(team);
    const { value } = await keyrun.newKey(team, { requestsPerMinute: 3 });
    const numbers = async () => factsOf(await run(value, "one"));
    expect(await numbers()).toMatchObject({
      ...{ limit: "3", remaining: "2", policy: '"team";q=5;w=60, "key";q=3;w=60' },
      list: '"team";r=4;t=60, "key";r=2;t=60',
    });
    for (let n = 0; n < 2; n++) await run(plain.value, "one");
    clock.advance(10_000);
    expect(await numbers()).toMatchObject({
      ...{ limit: "3", remaining: "1", list: '"team";r=1;t=50, "key";r=1;t=50' },
    });
    await run(plain.value, "one");
    // The team's limit refuses, and the key's has one left.
    expect(await numbers()).toMatchObject({
      ...{ reason: "RATE_LIMIT_EXCEEDED", limit: "5", remaining: "0", retryAfter: "50" },
      message: "The team has used its 5 requests a minute. Try again in 50 s.",
      metadata: { subject: "team", limit: "5", retry_after_s: "50" },
      list: '"team";r=0;t=50, "key";r=1;t=50',
    });
  });

  test("past its own limit a key waits as long as its answer says, and takes nothing from its team", async () => {
    const team = await keyrun.newTeam();
    const plain = await keyrun.newKey(team);
    const { value } = await keyrun.newKey(team, { requestsPerMinute: 1 });
    await run(value, "one");
    clock.advance(1_000);
    for (let n = 0; n < 3; n++) {
      expect(factsOf(await run(value, "one"))).toMatchObject({
        ...{ reason: "RATE_LIMIT_EXCEEDED", limit: "1", remaining: "0", retryAfter: "59" },
        message: "The key has used its 1 requests a minute. Try again in 59 s.",
        metadata: { subject: "key", limit: "1", retry_after_s: "59" },
        list: '"team";r=4;t=59, "key";r=0;t=59',
      });
    }
    expect(factsOf(await run(plain.value, "one"))).toMatchObject({ remaining: "3", list: '"team";r=3;t=59' });
    clock.advance(58_999);
    expect(await run(value, "one")).toMatchObject({ kind: "refused" });
    clock.advance(1);
    expect(await run(value, "one")).toMatchObject({ kind: "ok" });
  });
});

test("after a downgrade of the plan below the key's limit the team's limit decides", async () => {
  const team = await keyrun.newTeam(Plan.PRO);
  const { value } = await keyrun.newKey(team, { requestsPerMinute: 10 });
  await keyrun.teams.updateTeam({ team: { id: team, plan: Plan.FREE }, updateMask: { paths: ["plan"] } });
  const caller = restCaller(keyrun.publicUrl);
  const outcomes: RunOutcome[] = [];
  for (let n = 0; n < 6; n++) {
    outcomes.push(await caller.run({ appId: "one", text: "x", authorization: `Bearer ${value}` }));
  }
  caller.close();
  expect(outcomes.filter(({ kind }) => kind === "ok")).toHaveLength(5);
  expect(factsOf(outcomes[5]!)).toMatchObject({ metadata: { subject: "team", limit: "5" } });
});

describe("creating a restricted key", () => {
  test("keeps its apps, each once, and its limit, in the answer and in the list", async () => {
    const teamId = await keyrun.newTeam();
    const restrictions = { appIds: ["other", "one", "other"], requestsPerMinute: 5 };
    const { key } = await keyrun.keys.createKey({ teamId, ...restrictions });
    const kept = { appIds: ["other", "one"], requestsPerMinute: 5 };
    expect(key).toMatchObject(kept);
    const { keys } = await keyrun.keys.listKeys({ teamId });
    expect(keys).toMatchObject([kept]);
  });

  test("a key without restrictions shows none", async () => {
    const { key } = await keyrun.keys.createKey({ teamId: await keyrun.newTeam() });
    expect([key?.appIds, key?.requestsPerMinute]).toEqual([[], undefined]);
  });

  test.each([
    ["an app that does not exist", { appIds: ["one", "nowhere"] }, "app_ids"],
    ["an id that no app can have", { appIds: ["Not-An-Id"] }, "app_ids"],
    ["an empty id", { appIds: [""] }, "app_ids"],
    ["more apps than its bound", { appIds: apps(restrictedAppsMax + 1) }, `at most ${restrictedAppsMax}`],
    ["no request", { requestsPerMinute: 0 }, "requests_per_minute"],
    ["less than none", { requestsPerMinute: -1 }, "requests_per_minute"],
    ["more than the plan's limit", { requestsPerMinute: 6 }, "limit, 5"],
  ])("is refused by the field's name: %s", async (_, restrictions, words) => {
    const teamId = await keyrun.newTeam();
    await expect(keyrun.keys.createKey({ teamId, ...restrictions })).rejects.toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: expect.stringContaining(words),
    });
    expect((await keyrun.keys.listKeys({ teamId })).keys).toEqual([]);
  });

  test("an app that only another team may run is told as one that does not exist", async () => {
    const [teamId, another] = [await keyrun.newTeam(), await keyrun.newTeam()];
    await keyrun.apps.createApp({
      app: { id: "theirs", backend: { kind: { case: "echo", value: {} } }, teamIds: [another] },
    });
    const wordsFor = (appId: string) =>
      keyrun.keys.createKey({ teamId, appIds: [appId] }).then(
        () => expect.unreachable(),
        (thrown) => ConnectError.from(thrown).rawMessage.replace(appId, "<app>"),
      );
    expect(await wordsFor("theirs")).toBe(await wordsFor("nowhere"));
    await expect(keyrun.keys.createKey({ teamId: another, appIds: ["theirs"] })).resolves.toBeDefined();
  });
});

describe("VerifyKey", () => {
  test("a key restricted to apps is valid only with one of them; the cost is taken either way", async () => {
    const teamId = await keyrun.newTeam();
    const { id: keyId, value } = await keyrun.newKey(teamId, { appIds: ["one"] });
    for (const [n, appId] of ["one", "other", "nowhere", ""].entries()) {
      expect(await keyrun.keys.verifyKey({ value, appId })).toMatchObject({
        ...{ verdict: appId === "one" ? Verdict.VALID : Verdict.APP_NOT_ALLOWED, keyId, teamId },
        ...{ plan: Plan.FREE, rateLimit: { limit: 5, remaining: 4 - n } },
      });
    }
    expect((await keyrun.keys.verifyKey({ value, cost: 2 })).verdict).toBe(Verdict.RATE_LIMITED);
    expect((await keyrun.keys.verifyKey({ value, cost: 0, appId: "one" })).verdict).toBe(Verdict.VALID);
  });

  test("a key without such a restriction is valid with any app_id", async () => {
    const { value } = await keyrun.newKey(await keyrun.newTeam(), { requestsPerMinute: 2 });
    for (const appId of ["one", "nowhere"]) {
      expect((await keyrun.keys.verifyKey({ value, appId, cost: 0 })).verdict).toBe(Verdict.VALID);
    }
  });

  test("the numbers are those of the limit with fewer left, and of the one that frees later on a refusal", async () => {
    const teamId = await keyrun.newTeam();
    const plain = await keyrun.newKey(teamId);
    const { value } = await keyrun.newKey(teamId, { requestsPerMinute: 2 });
    expect((await keyrun.keys.verifyKey({ value })).rateLimit).toMatchObject({ limit: 2, remaining: 1 });
    clock.advance(20_000);
    expect(await keyrun.keys.verifyKey({ value, cost: 2 })).toMatchObject({
      verdict: Verdict.RATE_LIMITED,
      rateLimit: { limit: 2, remaining: 1, retryAfter: { seconds: 40n } },
    });
    await keyrun.keys.verifyKey({ value: plain.value, cost: 4 });
    expect(await keyrun.keys.verifyKey({ value, cost: 2 })).toMatchObject({
      rateLimit: { limit: 5, remaining: 0, retryAfter: { seconds: 60n } },
    });
  });

  test("a cost above the key's own limit is refused by its name, and nothing is taken", async () => {
    const { value } = await keyrun.newKey(await keyrun.newTeam(), { requestsPerMinute: 2 });
    await expect(keyrun.keys.verifyKey({ value, cost: 3 })).rejects.toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: "cost must be at most the key's own limit, 2.",
    });
    expect((await keyrun.keys.verifyKey({ value, cost: 0 })).rateLimit?.remaining).toBe(2);
  });
});

test("a refusal over gRPC names the app in its one ErrorInfo", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam(), { appIds: ["one"] });
  const caller = grpcJsCaller(keyrun.publicUrl);
  const outcome = await caller.run({ appId: "other", text: "x", authorization: `Bearer ${value}` });
  caller.close();
  const details = outcome.kind === "refused" ? outcome.details : [];
  expect(details).toEqual([
    {
      "@type": `type.googleapis.com/${ErrorInfoSchema.typeName}`,
      ...{ reason: "APP_NOT_ALLOWED", domain: "keyrun", metadata: { app_id: "other" } },
    },
  ]);
});

function apps(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `app-${n}`);
}

/** What an outcome tells of the reason and the limits. */
function factsOf(outcome: RunOutcome) {
  const { headers } = outcome;
  const [info] = (outcome.kind === "refused" ? outcome.details : []) as {
    reason?: string;
    metadata?: Record<string, string>;
  }[];
  return {
    ...{ reason: info?.reason, metadata: info?.metadata },
    message: outcome.kind === "refused" ? outcome.message : undefined,
    limit: headers.get("ratelimit-limit"),
    remaining: headers.get("ratelimit-remaining"),
    retryAfter: headers.get("retry-after"),
    list: headers.get("ratelimit"),
    policy: headers.get("ratelimit-policy"),
  };
}
