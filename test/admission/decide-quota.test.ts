import { expect, onTestFinished, test } from "vitest";
import { createDecide } from "#src/admission/decide.ts";
import { type KeyVerdict, unguarded } from "#src/auth/key-evidence.ts";
import type { LimitDecision, TeamLimiter } from "#src/limit/limit-decision.ts";
import { createLimiter } from "#src/limit/limiter.ts";
import { createLedger } from "#src/quota/ledger.ts";
import type { Quotas } from "#src/quota/quota.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import type { QuotaLimit } from "#src/settings/config.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { teamRecordOf } from "../harness/store-records.ts";

const folders = tempFolders();
const named = { keyId: "k1", firstKeyId: "k1", teamId: "demo" };
const valid: KeyVerdict = { kind: "valid", ...named, restrictions: null };
const ended: readonly KeyVerdict[] = [
  { kind: "revoked", keyId: "k1", teamId: "demo", revokeTimeMs: 5 },
  { kind: "expired", keyId: "k1", teamId: "demo", expireTimeMs: 5 },
];
const rate: LimitDecision = { accepted: true, limit: 6, remaining: 5, resetUnixMs: 1, retryAfterMs: 0 };

interface Facts {
  readonly limiter?: TeamLimiter;
  readonly quotas?: Quotas;
  /** Of the plan. */
  readonly quota?: QuotaLimit;
}

/** A decision about one key of team demo, whose plan allows six requests a minute. */
async function setUp({ limiter, quotas, quota = { requests: 10, period: "day" } }: Facts = {}) {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(() => stores.close());
  const clock = createManualClock();
  const counted = createLimiter({ clock, windowMs: 60_000, logsMax: 10 });
  const world = {
    verdict: valid,
    mayAdmit: true,
    used: [] as string[],
    counted: [] as string[],
    claims: 0,
    /** Called when the store has answered a claim, and nobody has the answer yet. */
    whenClaimed: () => {},
  };
  const ledger = createLedger({
    clock,
    store: {
      ...stores.quotas,
      change: async (changes) => {
        const answers = await stores.quotas.change(changes);
        world.claims += 1;
        world.whenClaimed();
        return answers;
      },
    },
    owner: () => "i1",
    isLive: () => false,
    onFailed: (cause) => expect.fail(String(cause)),
  });
  const decide = createDecide({
    clock,
    verifier: { peek: () => world.verdict, load: () => expect.fail("all is in memory") },
    teams: { peek: () => teamRecordOf({ id: "demo" }), load: () => expect.fail("all is in memory") },
    limiter: limiter ?? counted,
    quotaOf: () => quota,
    quotas: quotas ?? ledger.quotas,
    limitOf: () => 6,
    keyUsed: (keyId) => world.used.push(keyId),
    usage: { accepted: () => world.counted.push("accepted"), limited: () => world.counted.push("limited") },
    mayAdmit: () => world.mayAdmit,
  });
  const ask = (cost = 1) => decide("svc_x.y", { cost, address: "192.0.2.1", guard: unguarded });
  /** What is left of the team's quota, and of its minute. */
  const left = () => {
    const ofTeam = { id: "demo", teamId: "demo", limit: quota, requestsPerMinute: 6 };
    return [ledger.quotas.known(ofTeam)?.left, counted.peek("demo", 6).remaining];
  };
  return { clock, world, ask, left };
}

/** A key with a quota of its own, beside its team's. */
function keyWithQuota(requests: number): KeyVerdict {
  const quota = { requests, period: "month" } as const;
  return { ...named, kind: "valid", restrictions: { appIds: [], requestsPerMinute: null, quota } };
}

/** A limiter that another process keeps; the test decides what it answers. */
function sharedLimiter() {
  const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<LimitDecision>()];
  const spend = () => {
    asked.resolve();
    return answer.promise;
  };
  return { limiter: { spend, peek: () => rate }, asked: asked.promise, answer };
}

test("the quota is taken with the minute's limit, and past it a request is refused and takes of neither", async () => {
  const { ask, left } = await setUp({ quota: { requests: 3, period: "day" } });
  for (const rest of [2, 1, 0]) {
    expect(await ask()).toMatchObject({ kind: "admitted", quotas: [{ subject: "team" }] });
    expect(left()).toEqual([rest, rest + 3]);
  }
  const exceeded = { state: { subject: "team", limit: 3, used: 3, left: 0 } };
  expect(await ask()).toMatchObject({ kind: "quota_exceeded", exceeded, rate: { remaining: 3 } });
  expect(left()).toEqual([0, 3]);
});

test("what the minute's limit refuses gives its reservation back, here and where another process counts", async () => {
  const { ask, left } = await setUp();
  for (let n = 0; n < 6; n += 1) await ask();
  // The answer to it tells what is left without it.
  for (let n = 0; n < 9; n += 1)
    expect(await ask()).toMatchObject({ kind: "limited", quotas: [{ left: 4 }] });
  expect(left()).toEqual([4, 0]);
  const { limiter, answer } = sharedLimiter();
  const shared = await setUp({ limiter });
  answer.resolve({ ...rate, accepted: false });
  expect(await shared.ask(3)).toMatchObject({ kind: "limited", quotas: [{ left: 10 }] });
  expect(shared.left()[0]).toBe(10);
});

test.each(ended)(
  "a key that is $kind while its quota is claimed is refused and takes nothing",
  async (end) => {
    const { world, ask, left } = await setUp();
    world.whenClaimed = () => {
      world.verdict = end;
    };
    expect(await ask(2)).toEqual(end);
    expect([world.claims, left(), world.used, world.counted]).toEqual([1, [10, 6], [], []]);
  },
);

test.each(ended)("a key that is $kind while another process counts gives its quota back", async (end) => {
  const { limiter, asked, answer } = sharedLimiter();
  const { world, ask, left } = await setUp({ limiter });
  const decision = ask(2);
  await asked;
  expect(left()[0]).toBe(8);
  world.verdict = end;
  answer.resolve(rate);
  expect(await decision).toEqual(end);
  expect(left()[0]).toBe(10);
});

test("the lease is checked again after a claim, and where it is lost nothing is taken", async () => {
  const { world, ask, left } = await setUp();
  world.whenClaimed = () => {
    world.mayAdmit = false;
  };
  await expect(ask()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect([left(), world.used]).toEqual([[10, 6], []]);
});

test("a limiter that is away, or fails at once, gives the reservation back", async () => {
  const away: TeamLimiter = { spend: async () => Promise.reject(unavailable()), peek: () => rate };
  const failing: TeamLimiter = { ...away, spend: () => expect.fail("it is broken") };
  for (const limiter of [away, failing]) {
    const { world, ask, left } = await setUp({ limiter });
    await expect(ask()).rejects.toThrow();
    expect([left()[0], world.used]).toEqual([10, []]);
  }
});

test("a cost of 0 neither takes nor asks the store, and tells the quota once it is known", async () => {
  const { world, ask } = await setUp({ quota: { requests: 1, period: "day" } });
  expect(await ask(0)).toMatchObject({ kind: "admitted", quotas: [] });
  expect(world.claims).toBe(0);
  await ask();
  expect(await ask(0)).toMatchObject({ kind: "admitted", quotas: [{ used: 1, left: 0 }] });
  expect([world.claims, world.used]).toEqual([1, ["k1"]]);
});

test("a request that the quota refuses is a use of its key, and counts as limited", async () => {
  const { world, ask } = await setUp({ quota: { requests: 1, period: "day" } });
  await ask();
  await ask();
  expect([world.used, world.counted]).toEqual([
    ["k1", "k1"],
    ["accepted", "limited"],
  ]);
});

test("where the key's quota refuses, the team's gets its cost back, and the answer names the key", async () => {
  const { world, ask, left } = await setUp();
  world.verdict = keyWithQuota(3);
  expect(await ask(2)).toMatchObject({
    quotas: [
      { subject: "team", period: "day", left: 8 },
      { subject: "key", period: "month", left: 1 },
    ],
  });
  expect(await ask(2)).toMatchObject({ kind: "quota_exceeded", exceeded: { state: { subject: "key" } } });
  expect(left()).toEqual([8, 4]);
  expect(await ask(1)).toMatchObject({ kind: "admitted" });
  world.verdict = valid;
  expect(await ask(3)).toMatchObject({ kind: "admitted", quotas: [{ left: 4 }] });
});

test("a cost over the minute's limit is refused by its field, and takes nothing of the quota", async () => {
  const { world, ask } = await setUp();
  await expect(ask(7)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT", param: "cost" });
  expect(world.claims).toBe(0);
});

// The ledger never does it: here stands one that says each time that the store must be asked first.
test("a decision that never gets what it waits for ends as unavailable", async () => {
  let asked = 0;
  const reserve = async () => {
    asked += 1;
  };
  const never = { reserve, known: () => undefined } as Partial<Quotas> as Quotas;
  const { world, ask, left } = await setUp({ quotas: never });
  await expect(ask()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect([asked, left()[1], world.used]).toEqual([20, 6, []]);
});
