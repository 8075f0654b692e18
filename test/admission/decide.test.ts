import { expect, test } from "vitest";
import { createDecide } from "#src/admission/decide.ts";
import { type KeyVerdict, unguarded } from "#src/auth/key-evidence.ts";
import type { LimitDecision, TeamLimiter } from "#src/limit/limit-decision.ts";
import { createLimiter } from "#src/limit/limiter.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { teamRecordOf } from "../harness/store-records.ts";

const named = { keyId: "k1", firstKeyId: "k1", teamId: "demo" };
const valid: KeyVerdict = { kind: "valid", ...named, restrictions: null };
const revoked: KeyVerdict = { kind: "revoked", keyId: "k1", teamId: "demo", revokeTimeMs: 5 };
const demo = teamRecordOf({ id: "demo" });

/** A decision about one key of team demo, whose plan allows two requests a minute. */
function setUp(facts: { limiter?: TeamLimiter; isTeamCached?: boolean } = {}) {
  const clock = createManualClock();
  const counted = createLimiter({ clock, windowMs: 60_000, logsMax: 10 });
  const world = {
    verdict: valid as KeyVerdict | Promise<KeyVerdict>,
    mayAdmit: true,
    used: [] as string[],
    counted: [] as string[],
  };
  const decide = createDecide({
    clock,
    verifier: {
      peek: () => (world.verdict instanceof Promise ? undefined : world.verdict),
      load: async () => world.verdict,
    },
    teams: {
      peek: (id) => (facts.isTeamCached === false ? undefined : id === "demo" ? demo : null),
      load: async (id) => (id === "demo" ? demo : undefined),
    },
    limiter: facts.limiter ?? counted,
    quotaOf: () => undefined,
    quotas: { reserve: () => expect.fail("there is no quota"), known: () => undefined },
    limitOf: (plan) => ({ free: 2, pro: 3, team: 4, enterprise: 5 })[plan],
    keyUsed: (keyId) => world.used.push(keyId),
    usage: {
      accepted: (...[teamId, keyId]) => world.counted.push(`${teamId}/${keyId} accepted`),
      limited: (...[teamId, keyId]) => world.counted.push(`${teamId}/${keyId} limited`),
    },
    mayAdmit: () => world.mayAdmit,
  });
  const ask = (cost = 1) => decide("svc_x.y", { cost, address: "192.0.2.1", guard: unguarded });
  return { clock, counted, world, ask, remaining: () => counted.peek("demo", 2).remaining };
}

/** A key that may make one request a minute, and came by rotations from `k1` or is it. */
function limitedKey(keyId: string): KeyVerdict {
  return { ...named, kind: "valid", keyId, restrictions: { appIds: [], requestsPerMinute: 1, quota: null } };
}

/** A limiter that another process keeps; the test decides when it answers. */
function sharedLimiter() {
  const answer = Promise.withResolvers<LimitDecision>();
  const rate = { accepted: true, limit: 2, remaining: 1, resetUnixMs: 1, retryAfterMs: 0 };
  const limiter: TeamLimiter = { spend: () => answer.promise, peek: () => rate };
  return {
    limiter,
    accept: () => answer.resolve(rate),
    refuse: () => answer.resolve({ ...rate, accepted: false }),
  };
}

test("the lease, then the key, then the limit decide", async () => {
  const { world, ask } = setUp();
  expect(await ask()).toMatchObject({ kind: "admitted", keyId: "k1", teamId: "demo", plan: "free" });
  expect(await ask()).toMatchObject({ kind: "admitted", rate: { remaining: 0 } });
  expect(await ask()).toMatchObject({ kind: "limited", rate: { accepted: false, limit: 2 } });
  expect(world.used).toEqual(["k1", "k1", "k1"]);
  world.verdict = revoked;
  expect(await ask()).toEqual(revoked);
  world.verdict = { kind: "invalid" };
  expect(await ask()).toEqual({ kind: "invalid" });
  world.mayAdmit = false;
  await expect(ask()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
});

test("where all is in memory, the limit is spent in the moment in which the key is checked", async () => {
  const { world, ask, remaining } = setUp();
  const decision = ask();
  expect([remaining(), world.used]).toEqual([1, ["k1"]]);
  world.verdict = revoked;
  expect(await decision).toMatchObject({ kind: "admitted" });
});

test("a key that is revoked while its team is read spends nothing", async () => {
  const { world, ask, remaining } = setUp({ isTeamCached: false });
  const decision = ask();
  world.verdict = revoked;
  expect(await decision).toEqual(revoked);
  expect([remaining(), world.used]).toEqual([2, []]);
});

test("a cost is taken whole or not at all, a cost of 0 only looks and is no use, and a cost over the plan's limit is refused", async () => {
  const { world, ask, remaining } = setUp();
  expect(await ask(0)).toMatchObject({ kind: "admitted", rate: { remaining: 2 } });
  expect(world.used).toEqual([]);
  await ask();
  expect(await ask(2)).toMatchObject({ kind: "limited" });
  expect(remaining()).toBe(1);
  await expect(ask(3)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT", param: "cost" });
  expect(remaining()).toBe(1);
});

test("each request that costs something counts once for its key's usage: as accepted, or as limited", async () => {
  const { world, ask } = setUp();
  for (const cost of [0, 1, 1, 1, 0]) await ask(cost);
  expect(world.counted).toEqual(["demo/k1 accepted", "demo/k1 accepted", "demo/k1 limited"]);
  world.verdict = revoked;
  await ask();
  const { limiter, refuse } = sharedLimiter();
  const shared = setUp({ limiter });
  const decision = shared.ask();
  expect(shared.world.counted).toEqual([]);
  refuse();
  await decision;
  expect(shared.world.counted).toEqual(["demo/k1 limited"]);
  expect(world.counted.length).toBe(3);
});

test("a request that is answered 429 is a use of its key, too", async () => {
  const { world, ask } = setUp();
  for (const kind of ["admitted", "admitted", "limited"]) expect(await ask()).toMatchObject({ kind });
  expect(world.used).toEqual(["k1", "k1", "k1"]);
});

test("a key and those that came from it by rotations have one limit of their own, whose log is dropped once it is empty", async () => {
  const { clock, counted, world, ask } = setUp();
  const spent = { key: { accepted: false, limit: 1, remaining: 0 } };
  world.verdict = limitedKey("k1");
  expect(await ask()).toMatchObject({ kind: "admitted", rate: { key: { remaining: 0 } } });
  for (const keyId of ["k2", "k1", "k3", "k2"]) {
    world.verdict = limitedKey(keyId);
    expect(await ask()).toMatchObject({ kind: "limited", keyId, rate: spent });
    expect(await ask(0)).toMatchObject({ kind: "admitted", rate: { key: { remaining: 0 } } });
  }
  expect(world.counted).toEqual([
    "demo/k1 accepted",
    ...["k2", "k1", "k3", "k2"].map((id) => `demo/${id} limited`),
  ]);
  // The team's log, and one for all three keys.
  expect(counted.size()).toBe(2);
  clock.advance(60_000);
  const admitted = await ask();
  expect(admitted).toMatchObject({ kind: "admitted", keyId: "k2", rate: { key: { remaining: 0 } } });
  expect(counted.size()).toBe(2);
  clock.advance(60_000);
  const rateNow = "rateNow" in admitted ? admitted.rateNow() : undefined;
  expect(rateNow).toMatchObject({ remaining: 2, key: { remaining: 1 } });
  expect(counted.size()).toBe(0);
});

test("the lease is checked again after the key or the team was read, also for a revoked or invalid key", async () => {
  for (const verdict of [valid, revoked, { kind: "invalid" } as const]) {
    const { world, ask, remaining } = setUp();
    const read = Promise.withResolvers<KeyVerdict>();
    world.verdict = read.promise;
    const decision = ask();
    world.mayAdmit = false;
    read.resolve(verdict);
    await expect(decision).rejects.toMatchObject({ reason: "UNAVAILABLE" });
    expect([world.used, remaining()]).toEqual([[], 2]);
  }
  const { world, ask, remaining } = setUp({ isTeamCached: false });
  const decision = ask();
  world.mayAdmit = false;
  await expect(decision).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect([world.used, remaining()]).toEqual([[], 2]);
});

test("a key whose team does not exist is refused with INTERNAL", async () => {
  const { world, ask } = setUp();
  world.verdict = { ...valid, teamId: "gone" };
  await expect(ask()).rejects.toMatchObject({ reason: "INTERNAL" });
});

test("a limit that another process counts is waited for, and its answer decides", async () => {
  for (const kind of ["admitted", "limited"] as const) {
    const { limiter, accept, refuse } = sharedLimiter();
    const { world, ask } = setUp({ limiter });
    const decision = ask();
    expect(world.used).toEqual([]);
    kind === "admitted" ? accept() : refuse();
    expect(await decision).toMatchObject({ kind, keyId: "k1", teamId: "demo" });
    expect(world.used).toEqual(["k1"]);
  }
});

test("a key that is revoked while another process counts is refused, and so is any key once the lease is lost", async () => {
  const { limiter, accept } = sharedLimiter();
  const { world, ask } = setUp({ limiter });
  const [first, second] = [ask(), ask()];
  world.verdict = revoked;
  accept();
  expect(await first).toEqual(revoked);
  expect(await second).toEqual(revoked);
  world.verdict = valid;
  const third = ask();
  world.mayAdmit = false;
  await expect(third).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(world.used).toEqual([]);
});

test("a revoked key is refused without a look-up of its team, so it costs no read of the store", async () => {
  const { world, ask } = setUp({ isTeamCached: false });
  world.verdict = revoked;
  expect(await ask()).toEqual(revoked);
});
