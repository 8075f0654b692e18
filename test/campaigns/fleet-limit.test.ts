import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { figure } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, type FleetMember, startFleet } from "../harness/fleet.ts";
import {
  type Answer,
  type FleetCaller,
  type FleetEntry,
  fleetEntriesAndGuard,
  makeGuarded,
  type Outcome,
} from "../harness/fleet-caller.ts";
import type { manage } from "../harness/keyrun.ts";
import { until } from "../harness/until.ts";
import { quantile } from "./histogram.ts";

const parallel = 10_000;
const bigLimit = 3_000;
const smallLimit = 60;
/** How long an instance waits until it takes its share, and for how long a switch counts. */
const windowMs = 60_000;
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
  const entry = fleetEntriesAndGuard[turn % fleetEntriesAndGuard.length]!;
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
    await until(() => isSeen(counts));
  };
const isSpent = ({ limited }: Uses["counts"]) => limited > 0;

async function startWith(more: Record<string, string>): Promise<Limited> {
  const fleet = await startFleet({ in: "processes", settings: { ...settings, ...more } });
  const callers = fleet.members.map(({ place }) => fleet.caller(place, { sessions: 8, connectionsMax: 32 }));
  const management = fleet.manage();
  await makeGuarded(management);
  return { fleet, management, callers };
}

/** What a story found; undecided where an instance was starved, or a window was over before it. */
interface Found {
  readonly isDecided: boolean;
  readonly wasSlow?: boolean;
}

/** Does it again where it decided nothing, and the machine was too busy for it. */
async function undisturbed<Result extends Found>(story: () => Promise<Result>): Promise<Result> {
  let starvedBefore = limited.fleet.starvation().length;
  const wasStarved = () => {
    const before = starvedBefore;
    starvedBefore = limited.fleet.starvation().length;
    return starvedBefore > before;
  };
  const isNone = ({ isDecided, wasSlow }: Result) => (wasStarved() || wasSlow === true) && !isDecided;
  return eventually(story, { ...whileAnswer(isNone), triesMax: 5 });
}

describeFleet("processes")("three instances", () => {
  // While the instances of the one are too new to have a share, the other is tested.
  beforeAll(async () => {
    sharing = await startWith({ KEYRUN_LIMIT_FALLBACK: "share" });
    refusing = await startWith({ KEYRUN_LIMIT_FALLBACK: "refuse" });
  });
  afterAll(async () => {
    await sharing?.fleet.close();
    await refusing?.fleet.close();
  });

  describe("that refuse without Redis", () => {
    beforeAll(() => {
      limited = refusing;
    });

    test(`of ${parallel} requests at once over all instances, REST, guards, gRPC and VerifyKey, exactly ${bigLimit} are accepted`, async () => {
      const { counts } = await undisturbed(async () => {
        const value = await newKey(Plan.ENTERPRISE);
        const uses = new Uses();
        const beganMs = performance.now();
        await Promise.all(
          Array.from({ length: parallel }, (_, n) =>
            timedUse(uses, { value, place: n % 3, turn: Math.floor(n / 3) }),
          ),
        );
        const windows = Math.ceil((performance.now() - beganMs) / windowMs);
        figure(`${parallel} at once over three instances`, uses.inWords());
        expect(uses.wrong).toEqual([]);
        const { accepted, unavailable } = uses.counts;
        expect(accepted).toBeLessThanOrEqual(windows * bigLimit);
        // What has no answer of Redis in time may count.
        expect(accepted + unavailable).toBeGreaterThanOrEqual(bigLimit);
        // In a second window the limit allows more.
        const isDecided = windows === 1 && unavailable === 0;
        return { counts: uses.counts, isDecided, wasSlow: windows > 1 };
      });
      expect(counts).toMatchObject({ accepted: bigLimit, limited: parallel - bigLimit });
    });

    test("while Redis stands still, all requests get 503 and spend nothing", async () => {
      const { spent } = await undisturbed(async () => {
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
        // What waited in the stopped server spent nothing when it went on. Only an answer that came
        // too late before or after, on a busy machine, has counted.
        const spent = rest.counts.accepted;
        expect(spent).toBeLessThanOrEqual(smallLimit / 2);
        return { spent, isDecided: spent === smallLimit / 2 };
      });
      expect(spent).toBe(smallLimit / 2);
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

  describe("that share without Redis", () => {
    beforeAll(() => {
      limited = sharing;
    });

    /** Each takes Redis away and gives it back. */
    const troubles: Record<string, readonly [() => unknown, () => unknown]> = {
      "is stopped, and comes back empty": [
        () => limited.fleet.redis.kill(),
        () => limited.fleet.redis.start(),
      ],
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
      const { counts } = await undisturbed(async () => {
        await untilShares();
        for (const member of limited.fleet.members) {
          await member.stop();
          await member.start();
        }
        const value = await newKey(Plan.FREE);
        await untilTakenOver();
        limited.fleet.redis.freeze();
        const uses = new Uses();
        const turns = Array.from({ length: 42 }, (_, turn) =>
          timedUse(uses, { value, place: turn % 3, turn }),
        );
        await Promise.all(turns);
        await pause(500);
        limited.fleet.redis.thaw();
        figure("share, Redis stands still after a rolling restart", uses.inWords());
        expect(uses.wrong).toEqual([]);
        // An instance that could not reach Redis before it was stopped hands nothing over.
        return { counts: uses.counts, isDecided: uses.counts.accepted === 42 };
      });
      expect(counts).toMatchObject({ accepted: 42, unavailable: 0, limited: 0 });
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
});

interface Control {
  readonly vacant?: Record<string, unknown>;
  readonly leases: Record<string, { state: string; n: number; limits?: { share: string | null } }>;
}

/** Until what the three instances wrote of themselves meets the condition. */
async function untilControl(isMet: (control: Control) => boolean): Promise<Control> {
  const mongo = new MongoClient(`${limited.fleet.joining().KEYRUN_MONGODB_URI}`);
  let found: Control | undefined;
  await until(async () => {
    const control = await mongo.db().collection<Control>("control").findOne();
    const live = Object.values(control?.leases ?? {}).filter(({ state }) => state === "live");
    found = control ?? undefined;
    return control !== null && live.length === 3 && isMet(control);
  }, 50).finally(() => mongo.close());
  return found!;
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
