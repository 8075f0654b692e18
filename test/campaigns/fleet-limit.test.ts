import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { figure } from "../harness/campaigns.ts";
import { type Fleet, type FleetMember, startFleet } from "../harness/fleet.ts";
import {
  type Answer,
  type FleetCaller,
  type FleetEntry,
  fleetEntries,
  type Outcome,
  openFleetCaller,
} from "../harness/fleet-caller.ts";
import { missingFleetPrograms } from "../harness/fleet-programs.ts";
import { quantile } from "../harness/histogram.ts";
import type { manage } from "../harness/keyrun.ts";
import { mongodbUri } from "../harness/needs.ts";

const parallel = 10_000;
const bigLimit = 3_000;
const smallLimit = 60;
/** How long an instance waits until it takes its share, and for how long a switch counts. */
const windowMs = 60_000;
/** No request waits longer for Redis. */
const redisWaitMs = 100;
/** What a busy machine adds to most requests, and to the longest. */
const slackMs = 150;
const longestMsMax = 20_000;
/** A busy machine may starve an instance in the middle of a test, which then begins again. */
const triesMax = 4;
const settings = { KEYRUN_PLAN_LIMITS: `free=${smallLimit},enterprise=${bigLimit}` };

interface Limited {
  readonly fleet: Fleet;
  readonly management: ReturnType<typeof manage>;
  readonly callers: readonly FleetCaller[];
}

/** The fleet that a test is about. */
let limited: Limited;
let sharing: Limited;
let refusing: Limited;

/** Some requests of one team: what came of them, and how long each took. */
class Uses {
  readonly times: number[] = [];
  readonly counts: Record<Outcome, number> = {
    ...{ accepted: 0, limited: 0, unavailable: 0, revoked: 0, lost: 0, other: 0 },
  };
  readonly wrong: string[] = [];

  add(entry: FleetEntry, { outcome, body, headers }: Answer, ms: number): void {
    this.times.push(ms);
    this.counts[outcome] += 1;
    if (["revoked", "lost", "other"].includes(outcome)) this.wrong.push(body);
    // An RPC says it in the details of its error.
    if (outcome === "unavailable" && entry.startsWith("rest") && headers["retry-after"] !== "1") {
      this.wrong.push(`503 with Retry-After ${headers["retry-after"]}`);
    }
  }

  inWords(): string {
    const [p50, p99, longest] = [
      quantile(this.times, 0.5),
      quantile(this.times, 0.99),
      Math.max(...this.times),
    ];
    const { accepted, limited, unavailable } = this.counts;
    return (
      `${this.times.length} requests, ${accepted} accepted, ${limited} limited, ${unavailable} with 503; ` +
      `p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}, longest ${longest.toFixed(0)} ms`
    );
  }
}

async function newKey(plan: Plan): Promise<string> {
  return (await limited.management.newKey(await limited.management.newTeam(plan))).value;
}

async function timedUse(uses: Uses, { value, place, turn }: { value: string; place: number; turn: number }) {
  const sentMs = performance.now();
  const entry = fleetEntries[turn % fleetEntries.length]!;
  const answer = await limited.callers[place]!.use(entry, value);
  uses.add(entry, answer, performance.now() - sentMs);
}

/** Two requests at a time at each instance, through all entries, until the work is done. */
async function hammer(value: string, work: (uses: Uses) => Promise<unknown>): Promise<Uses> {
  const uses = new Uses();
  let over = false;
  const lane = async (place: number, first: number) => {
    for (let turn = first; !over; turn += 2) {
      await timedUse(uses, { value, place, turn });
      await pause(10);
    }
  };
  const lanes = limited.fleet.members.flatMap(({ place }) => [lane(place, 0), lane(place, 1)]);
  await work(uses);
  over = true;
  await Promise.all(lanes);
  return uses;
}

/** For so long at least, and until this is seen, which takes a slow machine longer. */
const atLeast =
  (ms: number, isSeen: (counts: Uses["counts"]) => boolean) =>
  async ({ counts }: Uses) => {
    await pause(ms);
    while (!isSeen(counts)) await pause(50);
  };
const isSpent = ({ limited }: Uses["counts"]) => limited > 0;

async function startWith(more: Record<string, string>): Promise<Limited> {
  const fleet = await startFleet({ settings: { ...settings, ...more } });
  const { members, serviceToken } = fleet;
  const callers = members.map(({ publicUrl, internalUrl }) =>
    openFleetCaller({ publicUrl, internalUrl, serviceToken }, { sessions: 8, connectionsMax: 32 }),
  );
  return { fleet, management: fleet.manage(), callers };
}

const left = mongodbUri === "" || missingFleetPrograms().length > 0;

// While the instances of the one are too new to have a share, the other is tested.
beforeAll(async () => {
  if (left) return;
  sharing = await startWith({ KEYRUN_LIMIT_FALLBACK: "share" });
  refusing = await startWith({ KEYRUN_LIMIT_FALLBACK: "refuse" });
});
afterAll(async () => {
  for (const { fleet, callers } of [sharing, refusing].filter((each) => each !== undefined)) {
    for (const caller of callers) caller.close();
    await fleet.close();
  }
});

describe.skipIf(left)("three instances that refuse without Redis", () => {
  beforeAll(() => {
    limited = refusing;
  });

  test(`of ${parallel} requests at once over all instances, REST, gRPC and VerifyKey, exactly ${bigLimit} are accepted`, async () => {
    for (let tries = 1; ; tries += 1) {
      const value = await newKey(Plan.ENTERPRISE);
      const uses = new Uses();
      const beganMs = performance.now();
      await Promise.all(
        Array.from({ length: parallel }, (_, n) =>
          timedUse(uses, { value, place: n % 3, turn: Math.floor(n / 3) }),
        ),
      );
      const tookMs = performance.now() - beganMs;
      figure(`${parallel} at once over three instances`, uses.inWords());
      expect(uses.wrong).toEqual([]);
      const { accepted, unavailable } = uses.counts;
      expect(accepted).toBeLessThanOrEqual(Math.ceil(tookMs / windowMs) * bigLimit);
      // What has no answer of Redis in time may count.
      expect(accepted + unavailable).toBeGreaterThanOrEqual(bigLimit);
      // Within one window, or the limit would allow more. And once no instance was starved.
      const isWhole = tookMs < windowMs && unavailable === 0;
      if (!isWhole && tries < triesMax) continue;
      if (!isWhole && limited.fleet.starvation().length > 0) return;
      expect(uses.counts).toMatchObject({ accepted: bigLimit, limited: parallel - bigLimit });
      return;
    }
  });

  test("the headers of a team count on over all instances and entries", async () => {
    let value = await newKey(Plan.FREE);
    const resets: number[] = [];
    for (let n = 1, tries = 1; n <= 24; n += 1) {
      const entry = fleetEntries[Math.floor(n / 3) % fleetEntries.length]!;
      const { outcome, headers, body } = await limited.callers[n % 3]!.use(entry, value);
      if (outcome === "unavailable" && tries < triesMax) {
        value = await newKey(Plan.FREE);
        resets.length = 0;
        [n, tries] = [0, tries + 1];
        await pause(2_000);
        continue;
      }
      expect(outcome).toBe("accepted");
      const remaining = smallLimit - n;
      if (entry === "verify") {
        expect(JSON.parse(body).rateLimit).toMatchObject({ limit: smallLimit, remaining });
        continue;
      }
      expect(headers).toMatchObject({
        "ratelimit-limit": `${smallLimit}`,
        "ratelimit-remaining": `${remaining}`,
      });
      resets.push(Number(headers["ratelimit-reset"]));
    }
    // Of the first request, whichever instance says it. Each reckons it by its own clock, and an
    // answer of Redis that comes late makes it later.
    expect(Math.max(...resets) - Math.min(...resets)).toBeLessThan(5);
  });

  test("while Redis stands still, all requests get 503 within 100 ms and their own time, and spend nothing", async () => {
    for (let tries = 1; ; tries += 1) {
      const value = await newKey(Plan.FREE);
      const healthy = new Uses();
      for (let turn = 0; healthy.counts.accepted < smallLimit / 2; turn += 1) {
        await timedUse(healthy, { value, place: turn % 3, turn });
      }
      limited.fleet.redis.freeze();
      const without = await hammer(value, () => pause(3_000));
      limited.fleet.redis.thaw();
      const rest = await hammer(value, atLeast(2_000, isSpent));
      figure("refuse, while Redis stands still", without.inWords());
      figure("refuse, Redis back", rest.inWords());
      expect([...without.wrong, ...rest.wrong]).toEqual([]);
      expect(without.counts).toMatchObject({ accepted: 0, limited: 0 });
      expectNoWait(without.times, healthy.times);
      // What waited in the stopped server spent nothing when it went on. Only an answer that came
      // too late before or after, on a busy machine, has counted.
      if (rest.counts.accepted < smallLimit / 2 && tries < triesMax) continue;
      expect(rest.counts.accepted).toBe(smallLimit / 2);
      return;
    }
  });

  test("when Redis comes back empty, at most twice the limit is accepted in all", async () => {
    const value = await newKey(Plan.FREE);
    const before = await hammer(value, atLeast(500, isSpent));
    await limited.fleet.redis.kill();
    const without = await hammer(value, () => pause(1_500));
    await limited.fleet.redis.start();
    const back = await hammer(value, atLeast(2_000, isSpent));
    figure("refuse, while Redis is stopped", without.inWords());
    figure("refuse, Redis back and empty", back.inWords());
    expect([...before.wrong, ...without.wrong, ...back.wrong]).toEqual([]);
    expect(before.counts.accepted).toBeLessThanOrEqual(smallLimit);
    expect(before.counts.accepted + before.counts.unavailable).toBeGreaterThanOrEqual(smallLimit);
    expect(without.counts.accepted).toBe(0);
    expect(back.counts.accepted).toBeGreaterThan(0);
    expect(back.counts.accepted).toBeLessThanOrEqual(smallLimit);
  });
});

describe.skipIf(left)("three instances that share without Redis", () => {
  beforeAll(() => {
    limited = sharing;
  });

  /** Each takes Redis away and gives it back. */
  const troubles: Record<string, readonly [() => unknown, () => unknown]> = {
    "is stopped, and comes back empty": [() => limited.fleet.redis.kill(), () => limited.fleet.redis.start()],
    "stands still": [() => limited.fleet.redis.freeze(), () => limited.fleet.redis.thaw()],
    "is cut off": [() => each(({ redis }) => redis.cut()), () => each(({ redis }) => redis.mend())],
    "is silent for one instance": [
      () => limited.fleet.members[1]!.redis.freeze(),
      () => limited.fleet.members[1]!.redis.mend(),
    ],
  };

  test("when Redis stands still right after a rolling restart, nobody is refused: each new instance has the share of the one before it", {
    timeout: 240_000,
  }, async () => {
    await untilShares();
    for (const member of limited.fleet.members) {
      await member.stop();
      await member.start();
    }
    const value = await newKey(Plan.FREE);
    await untilTakenOver();
    const isUndisturbed = limited.fleet.starvation().length === 0;
    limited.fleet.redis.freeze();
    const uses = new Uses();
    const each = Array.from({ length: 42 }, (_, turn) => timedUse(uses, { value, place: turn % 3, turn }));
    await Promise.all(each);
    await pause(500);
    limited.fleet.redis.thaw();
    figure("share, Redis stands still after a rolling restart", uses.inWords());
    expect(uses.wrong).toEqual([]);
    // An instance that could not reach Redis before it was stopped hands nothing over.
    if (isUndisturbed) expect(uses.counts).toMatchObject({ accepted: 42, unavailable: 0, limited: 0 });
  });

  test("when Redis is gone, each instance admits its share, and no more than twice the limit is accepted in all", {
    timeout: 240_000,
  }, async () => {
    const pids = limited.fleet.members.map((member) => member.process().pid);
    await untilShares();
    const healthy = await hammer(await newKey(Plan.ENTERPRISE), () => pause(2_000));
    figure("share, with Redis", healthy.inWords());
    for (const [name, [take, giveBack]] of Object.entries(troubles)) {
      const value = await newKey(Plan.FREE);
      const beganMs = performance.now();
      const before = new Uses();
      for (let turn = 0; turn < smallLimit / 4; turn += 1) {
        await timedUse(before, { value, place: turn % 3, turn });
      }
      await take();
      const openedBefore = await opened();
      const takenMs = performance.now();
      const share = Math.floor(smallLimit / 3);
      const without = await hammer(
        value,
        atLeast(3_000, ({ accepted }) => accepted >= share),
      );
      const attempts = (await opened()) - openedBefore;
      const takenSeconds = (performance.now() - takenMs) / 1_000;
      await limited.fleet.members[1]!.untilReadyz(200);
      await giveBack();
      const back = await hammer(value, () => pause(3_000));
      figure(`share, Redis ${name}`, without.inWords());
      figure(`share, Redis ${name}: connections tried`, attempts);
      figure(`share, Redis ${name} and back`, back.inWords());
      expect([...before.wrong, ...without.wrong, ...back.wrong]).toEqual([]);
      // The instances go on admitting, and together not more than the bound.
      expect(without.counts.accepted).toBeGreaterThanOrEqual(share);
      const all = [before, without, back].reduce((sum, { counts }) => sum + counts.accepted, 0);
      const windows = Math.ceil((performance.now() - beganMs) / windowMs);
      expect(all).toBeLessThanOrEqual(windows * 2 * smallLimit);
      for (const { times } of [without, back]) expectNoWait(times, healthy.times);
      // One a second and instance, and the one that was lost.
      expect(attempts).toBeLessThanOrEqual(3 * (Math.ceil(takenSeconds) + 2));
    }
    expect(limited.fleet.members.map((member) => member.process().pid)).toEqual(pids);
    // Redis counts for all again.
    const after = await hammer(await newKey(Plan.FREE), () => pause(3_000));
    expect(after.wrong).toEqual([]);
    expect(after.counts.accepted).toBeLessThanOrEqual(smallLimit);
  });
});

/** Most wait for Redis no longer than they may, and the first, which find out, not much longer. */
function expectNoWait(times: readonly number[], healthy: readonly number[]): void {
  expect(quantile(times, 0.5)).toBeLessThan(quantile(healthy, 0.5) + redisWaitMs + slackMs);
  expect(Math.max(...times)).toBeLessThan(longestMsMax);
}

interface Control {
  readonly vacant?: Record<string, unknown>;
  readonly leases: Record<string, { state: string; n: number; limits?: { share: string | null } }>;
}

/** Until what the three instances wrote of themselves meets the condition. */
async function untilControl(isMet: (control: Control) => boolean): Promise<Control> {
  const mongo = new MongoClient(`${limited.fleet.joining().KEYRUN_MONGODB_URI}`);
  try {
    for (;;) {
      const control = await mongo.db().collection<Control>("control").findOne();
      const live = Object.values(control?.leases ?? {}).filter(({ state }) => state === "live");
      if (control && live.length === 3 && isMet(control)) return control;
      await pause(50);
    }
  } finally {
    await mongo.close();
  }
}

/** Until all say that they have a share: one that is new has none for a minute. */
const untilShares = () =>
  untilControl(({ leases }) =>
    Object.values(leases).every(({ limits }) => typeof limits?.share === "string"),
  );

/** Until no share of an instance that left is vacant, and all have seen that. */
async function untilTakenOver(): Promise<void> {
  const { leases: before } = await untilControl(({ vacant = {} }) => Object.keys(vacant).length === 0);
  await untilControl(({ leases }) =>
    Object.entries(leases).every(([id, { n }]) => n >= (before[id]?.n ?? 0) + 2),
  );
}

async function each(work: (member: FleetMember) => Promise<unknown>): Promise<void> {
  await Promise.all(limited.fleet.members.map(work));
}

/** How many connections to Redis the instances have opened. */
async function opened(): Promise<number> {
  const counts = await Promise.all(limited.fleet.members.map(({ redis }) => redis.opened()));
  return counts.reduce((sum, count) => sum + count, 0);
}
