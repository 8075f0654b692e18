import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
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
import { statusOf } from "../harness/keyrun-process.ts";
import { mongodbUri } from "../harness/mongo-databases.ts";
import { printFigures } from "../harness/test-size.ts";

const parallel = 10_000;
const bigLimit = 3_000;
const smallLimit = 60;
/** How long an instance waits until it takes its share, and for how long a switch counts. */
const windowMs = 60_000;
/** No request waits longer for Redis. */
const redisWaitMs = 100;
/** What a busy machine adds to the longest request. */
const slackMs = 150;
const settings = { KEYRUN_PLAN_LIMITS: `free=${smallLimit},enterprise=${bigLimit}` };

let fleet: Fleet;
let management: ReturnType<typeof manage>;
let callers: FleetCaller[];
let startedMs: number;

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
  return (await management.newKey(await management.newTeam(plan))).value;
}

async function timedUse(uses: Uses, { value, place, turn }: { value: string; place: number; turn: number }) {
  const sentMs = performance.now();
  const entry = fleetEntries[turn % fleetEntries.length]!;
  const answer = await callers[place]!.use(entry, value);
  uses.add(entry, answer, performance.now() - sentMs);
}

/** Two requests at a time at each instance, through all entries, until the work is done. */
async function hammer(value: string, work: () => Promise<unknown>): Promise<Uses> {
  const uses = new Uses();
  let over = false;
  const lane = async (place: number, first: number) => {
    for (let turn = first; !over; turn += 2) {
      await timedUse(uses, { value, place, turn });
      await pause(10);
    }
  };
  const lanes = fleet.members.flatMap(({ place }) => [lane(place, 0), lane(place, 1)]);
  await work();
  over = true;
  await Promise.all(lanes);
  return uses;
}

async function startWith(more: Record<string, string>): Promise<void> {
  fleet = await startFleet({ settings: { ...settings, ...more } });
  startedMs = performance.now();
  management = fleet.manage();
  const { members, serviceToken } = fleet;
  callers = members.map(({ publicUrl, internalUrl }) =>
    openFleetCaller({ publicUrl, internalUrl, serviceToken }, { sessions: 8, connectionsMax: 32 }),
  );
}

async function closeAll(): Promise<void> {
  for (const caller of callers ?? []) caller.close();
  await fleet?.close();
}

const left = mongodbUri === "" || missingFleetPrograms().length > 0;

describe.skipIf(left)("three instances with one Redis", () => {
  beforeAll(() => startWith({ KEYRUN_LIMIT_FALLBACK: "share" }));
  afterAll(closeAll);

  test(`of ${parallel} requests at once over all instances, REST, gRPC and VerifyKey, exactly ${bigLimit} are accepted`, {
    timeout: 120_000,
  }, async () => {
    const value = await newKey(Plan.ENTERPRISE);
    const uses = new Uses();
    const beganMs = performance.now();
    await Promise.all(
      Array.from({ length: parallel }, (_, n) =>
        timedUse(uses, { value, place: n % 3, turn: Math.floor(n / 3) }),
      ),
    );
    const tookMs = performance.now() - beganMs;
    printFigures(
      `${parallel} at once over three instances in ${(tookMs / 1_000).toFixed(1)} s: ${uses.inWords()}`,
    );
    expect(uses.wrong).toEqual([]);
    // Within one window, or the limit would allow more.
    expect(tookMs).toBeLessThan(windowMs);
    expect(uses.counts).toMatchObject({ accepted: bigLimit, limited: parallel - bigLimit });
  });

  test("the headers of a team count on over all instances and entries", async () => {
    const value = await newKey(Plan.FREE);
    const resets = new Set<string>();
    for (let n = 1; n <= 24; n += 1) {
      const entry = fleetEntries[Math.floor(n / 3) % fleetEntries.length]!;
      const { outcome, headers, body } = await callers[n % 3]!.use(entry, value);
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
      resets.add(headers["ratelimit-reset"] ?? "none");
    }
    // Of the first request, whichever instance says it.
    expect(resets.size).toBe(1);
  });

  /** Each takes Redis away and gives it back. */
  const troubles: Record<string, readonly [() => unknown, () => unknown]> = {
    "is stopped, and comes back empty": [() => fleet.redis.kill(), () => fleet.redis.start()],
    "stands still": [() => fleet.redis.freeze(), () => fleet.redis.thaw()],
    "is cut off": [() => each(({ redis }) => redis.cut()), () => each(({ redis }) => redis.mend())],
    "is silent for one instance": [
      () => fleet.members[1]!.redis.freeze(),
      () => fleet.members[1]!.redis.mend(),
    ],
  };

  test("when Redis is gone, each instance admits its share, and no more than twice the limit is accepted in all", {
    timeout: 240_000,
  }, async () => {
    const pids = fleet.members.map((member) => member.process().pid);
    // A newcomer has no share.
    await pause(Math.max(0, startedMs + windowMs + 2_000 - performance.now()));
    const healthy = await hammer(await newKey(Plan.ENTERPRISE), () => pause(2_000));
    printFigures(`with Redis: ${healthy.inWords()}`);
    const ownMs = Math.max(...healthy.times);
    for (const [name, [take, giveBack]] of Object.entries(troubles)) {
      const value = await newKey(Plan.FREE);
      const beganMs = performance.now();
      const before = new Uses();
      for (let turn = 0; turn < smallLimit / 4; turn += 1) {
        await timedUse(before, { value, place: turn % 3, turn });
      }
      await take();
      const openedBefore = await opened();
      const without = await hammer(value, () => pause(4_000));
      const attempts = (await opened()) - openedBefore;
      expect(await statusOf(`${fleet.members[1]!.publicUrl}/readyz`)).toBe(200);
      await giveBack();
      const back = await hammer(value, () => pause(4_000));
      printFigures(
        `Redis ${name}: ${without.inWords()}; ${attempts} connections tried\n  back: ${back.inWords()}`,
      );
      expect([...before.wrong, ...without.wrong, ...back.wrong]).toEqual([]);
      // The instances go on admitting, and together not more than the bound.
      expect(without.counts.accepted).toBeGreaterThanOrEqual(Math.floor(smallLimit / 3));
      const all = [before, without, back].reduce((sum, { counts }) => sum + counts.accepted, 0);
      expect(all).toBeLessThanOrEqual(2 * smallLimit);
      expect(performance.now() - beganMs).toBeLessThan(windowMs);
      expect(Math.max(...without.times, ...back.times)).toBeLessThan(ownMs + redisWaitMs + slackMs);
      // One a second and instance, and the one that was lost.
      expect(attempts).toBeLessThanOrEqual(3 * 6);
    }
    expect(fleet.members.map((member) => member.process().pid)).toEqual(pids);
    // Redis counts for all again.
    const after = await hammer(await newKey(Plan.FREE), () => pause(3_000));
    expect(after.wrong).toEqual([]);
    expect(after.counts.accepted).toBeLessThanOrEqual(smallLimit);
  });
});

describe.skipIf(left)("three instances that refuse without Redis", () => {
  beforeAll(() => startWith({ KEYRUN_LIMIT_FALLBACK: "refuse" }));
  afterAll(closeAll);

  test("while Redis stands still, all requests get 503 within 100 ms and their own time, and spend nothing", async () => {
    const value = await newKey(Plan.FREE);
    const healthy = new Uses();
    for (let turn = 0; turn < smallLimit / 2; turn += 1) {
      await timedUse(healthy, { value, place: turn % 3, turn });
    }
    expect(healthy.counts.accepted).toBe(smallLimit / 2);
    fleet.redis.freeze();
    const without = await hammer(value, () => pause(3_000));
    fleet.redis.thaw();
    const rest = await hammer(value, () => pause(4_000));
    printFigures(`refused while Redis stands still: ${without.inWords()}; back: ${rest.inWords()}`);
    expect([...without.wrong, ...rest.wrong]).toEqual([]);
    expect(without.counts).toMatchObject({ accepted: 0, limited: 0 });
    expect(Math.max(...without.times)).toBeLessThan(Math.max(...healthy.times) + redisWaitMs + slackMs);
    // What waited in the stopped server spent nothing when it went on.
    expect(rest.counts.accepted).toBe(smallLimit / 2);
  });

  test("when Redis comes back empty, at most twice the limit is accepted in all", async () => {
    const value = await newKey(Plan.FREE);
    const before = await hammer(value, () => pause(1_500));
    await fleet.redis.kill();
    const without = await hammer(value, () => pause(1_500));
    await fleet.redis.start();
    const back = await hammer(value, () => pause(4_000));
    printFigures(`refused while Redis is stopped: ${without.inWords()}; back and empty: ${back.inWords()}`);
    expect([...before.wrong, ...without.wrong, ...back.wrong]).toEqual([]);
    expect(before.counts.accepted).toBe(smallLimit);
    expect(without.counts.accepted).toBe(0);
    expect(back.counts.accepted).toBeGreaterThan(0);
    expect(back.counts.accepted).toBeLessThanOrEqual(smallLimit);
  });
});

async function each(work: (member: FleetMember) => Promise<unknown>): Promise<void> {
  await Promise.all(fleet.members.map(work));
}

/** How many connections to Redis the instances have opened. */
async function opened(): Promise<number> {
  const counts = await Promise.all(fleet.members.map(({ redis }) => redis.opened()));
  return counts.reduce((sum, count) => sum + count, 0);
}
