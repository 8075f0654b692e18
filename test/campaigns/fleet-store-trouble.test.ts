import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { figure, timeFigures } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, type FleetMember, startFleet } from "../harness/fleet.ts";
import { type Answer, type FleetCaller, type FleetEntry, fleetEntries } from "../harness/fleet-caller.ts";
import type { manage } from "../harness/keyrun.ts";
import { until } from "../harness/until.ts";

/**
 * The lease of an instance, and what a request, a heartbeat and a busy machine add to it. That it
 * accepts nothing after that is the promise, so here a time decides.
 */
const leaseMs = 5_000;
const leaseMsMax = leaseMs + 1_500;
/** An instance whose last heartbeat was not long before holds on so long at least. */
const leaseMsMin = leaseMs / 2;
/** Keys that every instance has in its cache. */
const keysUsed = 29;

let fleet: Fleet;
let management: ReturnType<typeof manage>;
let callers: FleetCaller[];
let values: string[];
let teamId: string;
/** What the first use of every key at every instance read of the store. */
let coldReads: number;

/** One use, and when it was sent, counted from the beginning of its load. */
interface Use extends Answer {
  readonly entry: FleetEntry;
  readonly place: number;
  readonly sentMs: number;
  readonly ms: number;
}

interface Load {
  readonly uses: readonly Use[];
  /** Milliseconds since its beginning. */
  nowMs(): number;
  end(): Promise<void>;
}

/** Uses all keys at all instances until it is told to end. */
function load(pauseMs = 5): Load {
  const beganMs = performance.now();
  const nowMs = () => performance.now() - beganMs;
  const uses: Use[] = [];
  let over = false;
  const lane = async (place: number, first: number) => {
    for (let turn = first; !over; turn += 1) {
      const sentMs = nowMs();
      const answer = await use(place, turn);
      uses.push({ ...answer, place, sentMs, ms: nowMs() - sentMs });
      await pause(pauseMs);
    }
  };
  const lanes = fleet.members.flatMap(({ place }) => [lane(place, 0), lane(place, 14)]);
  return {
    uses,
    nowMs,
    async end() {
      over = true;
      await Promise.all(lanes);
    },
  };
}

async function use(place: number, turn: number): Promise<Answer & { entry: FleetEntry }> {
  // The two numbers share no factor, so every key comes to every entry.
  const entry = fleetEntries[turn % fleetEntries.length]!;
  return { ...(await callers[place]!.use(entry, values[turn % values.length]!)), entry };
}

async function warm(): Promise<void> {
  for (const member of fleet.members) {
    await member.untilReadyz(200);
    await Promise.all(values.map((_, turn) => use(member.place, turn)));
  }
}

/**
 * Nothing but acceptance and 503, which says when to come back: an RPC in the details of its error.
 */
function expectOnlyUnavailable(uses: readonly Use[]): void {
  const wrong = uses.filter(
    ({ entry, outcome, headers }) =>
      outcome !== "accepted" &&
      !(outcome === "unavailable" && (!entry.startsWith("rest") || Number(headers["retry-after"]) >= 1)),
  );
  expect(wrong.slice(0, 5).map(({ outcome, body, headers }) => ({ outcome, body, headers }))).toEqual([]);
}

const starvationOf = (place: number) => fleet.members[place]!.starvation().length;

/** Does it again where not all was accepted, and the instance says that the machine starved it. */
async function allServed(story: () => Promise<{ uses: readonly Use[]; places: readonly number[] }>) {
  const attempt = async () => {
    const before = fleet.members.map(({ place }) => starvationOf(place));
    const { uses, places } = await story();
    const short = places.filter((place) => accepted(at(uses, place)).length < at(uses, place).length);
    return { short, isStarved: short.some((place) => starvationOf(place) > before[place]!) };
  };
  const { short } = await eventually(attempt, { ...whileAnswer(({ isStarved }) => isStarved), triesMax: 4 });
  expect(short).toEqual([]);
}

const accepted = (uses: readonly Use[]) => uses.filter(({ outcome }) => outcome === "accepted");
const at = (uses: readonly Use[], place: number) => uses.filter((one) => one.place === place);

/** When the last use was sent that was accepted. */
function lastAcceptedMs(uses: readonly Use[]): number {
  return Math.max(...accepted(uses).map(({ sentMs }) => sentMs));
}

async function storeReads(): Promise<number> {
  let sum = 0;
  for (const { place } of fleet.members) sum += await metricOf(place, "keyrun_store_reads_total");
  return sum;
}

/** The sum of all series whose names and labels begin so. */
async function metricOf(place: number, series: string): Promise<number> {
  const answer = await fetch(`${fleet.members[place]!.internalUrl}/metrics`, {
    headers: { authorization: `Bearer ${fleet.serviceToken}` },
  });
  const lines = (await answer.text()).split("\n").filter((line) => line.startsWith(series));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

interface LogLine {
  readonly level?: string;
  readonly msg?: string;
  readonly reason?: string;
  readonly cause?: { readonly message?: string };
}

/** The log of the process that was started last. */
function linesOf(place: number): LogLine[] {
  const lines = fleet.members[place]!.process().stderr().split("\n");
  return lines.filter((line) => line.startsWith("{") && line.endsWith("}")).map((line) => JSON.parse(line));
}

describeFleet("processes")("three instances whose MongoDB is in trouble", () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes" });
    management = fleet.manage();
    callers = fleet.members.map(({ place }) => fleet.caller(place, { connectionsMax: 256 }));
    teamId = await management.newTeam();
    values = [];
    for (let n = 0; n < keysUsed; n += 1) values.push((await management.newKey(teamId)).value);
    const before = await storeReads();
    await warm();
    coldReads = (await storeReads()) - before;
  });
  afterAll(async () => {
    await fleet?.close();
  });

  test("stopped: cached keys work for the lease, then 503 with Retry-After and never 401; back without a herd", async () => {
    await warm();
    const readsBefore = await storeReads();
    const { keyId } = await notYetUsed();
    const running = load();
    await pause(300);
    await fleet.killMongo();
    const goneMs = running.nowMs();
    const revoked = await callers[0]!.call("KeyService/RevokeKey", { teamId, keyId });
    expect(revoked.status).toBe(503);
    for (const member of fleet.members) await member.untilReadyz(503);
    const unreadyMs = running.nowMs() - goneMs;
    await pause(1_000);
    const heldMs = lastAcceptedMs(running.uses) - goneMs;
    await fleet.startMongo();
    const returnedMs = running.nowMs();
    for (const member of fleet.members) await member.untilReadyz(200);
    const readyMs = running.nowMs() - returnedMs;
    await pause(1_500);
    await running.end();
    const firstMs = fleet.members.map(({ place }) => {
      const later = accepted(at(running.uses, place)).filter(({ sentMs }) => sentMs > returnedMs);
      return Math.min(...later.map(({ sentMs }) => sentMs)) - returnedMs;
    });
    const reads = (await storeReads()) - readsBefore;
    figure("stopped: cached keys accepted for", heldMs / 1_000, "s");
    figure("stopped: /readyz 503 on all after", unreadyMs / 1_000, "s");
    timeFigures("stopped: accepted again after", firstMs);
    figure("stopped: /readyz 200 after", readyMs / 1_000, "s");
    figure("stopped: reads afterwards", reads);
    figure("reads of a cold start", coldReads);
    expectOnlyUnavailable(running.uses);
    expect(heldMs).toBeGreaterThan(leaseMsMin);
    expect(heldMs).toBeLessThan(leaseMsMax);
    expect(reads).toBeLessThanOrEqual(2 * coldReads);
  });

  test("silent for one: the others go on, its key cache holds for the lease, and a miss is 503", () =>
    allServed(async () => {
      await warm();
      const fresh = await notYetUsed();
      const running = load();
      await pause(300);
      const linesBefore = linesOf(2).length;
      const { mongo, place } = fleet.members[2]!;
      await mongo.freeze();
      const goneMs = running.nowMs();
      const missAt = performance.now();
      const miss = await callers[place]!.use("rest", fresh.value);
      const missMs = performance.now() - missAt;
      await fleet.members[2]!.untilReadyz(503);
      for (const each of [0, 1]) await fleet.members[each]!.untilReadyz(200);
      // `/readyz` may know of the store's silence before the lease is over.
      await until(() =>
        linesOf(2).some(({ msg }, at) => at >= linesBefore && msg?.includes("has lost its lease")),
      );
      await pause(500);
      const heldMs = lastAcceptedMs(at(running.uses, place)) - goneMs;
      await mongo.mend();
      const mendedMs = running.nowMs();
      await fleet.members[2]!.untilReadyz(200);
      const readyMs = running.nowMs() - mendedMs;
      await running.end();
      const later = accepted(at(running.uses, place)).filter(({ sentMs }) => sentMs > mendedMs);
      const backMs = Math.min(...later.map(({ sentMs }) => sentMs)) - mendedMs;
      figure("silent for one: held", heldMs / 1_000, "s");
      figure("silent for one: a miss answered after", missMs / 1_000, "s");
      figure("silent for one: back after", backMs / 1_000, "s");
      figure("silent for one: /readyz 200 after", readyMs / 1_000, "s");
      expectOnlyUnavailable(running.uses);
      const lines = linesOf(2).slice(linesBefore);
      const causes = (words: string) =>
        lines.filter(({ msg }) => msg?.includes(words)).map(({ cause }) => typeof cause?.message);
      expect(causes("has lost its lease")).toEqual(["string"]);
      expect(causes("holds its lease")).toEqual(["string"]);
      const refused = at(running.uses, place).filter(({ outcome }) => outcome === "unavailable");
      const warned = lines.filter(({ level, reason }) => level === "warn" && reason === "UNAVAILABLE");
      const counted = await metricOf(2, 'keyrun_outage_refusals_total{cause="lease"}');
      figure("silent for one: refused", refused.length);
      figure("silent for one: lines of it", warned.length);
      // Those whose keys were not in the cache any more before the lease was over.
      expect(warned.length).toBeLessThan(10);
      expect(counted).toBeGreaterThan(refused.length - 10);
      expect(miss.outcome).toBe("unavailable");
      expect(heldMs).toBeGreaterThan(leaseMsMin);
      expect(heldMs).toBeLessThan(leaseMsMax);
      return { uses: running.uses, places: [0, 1] };
    }));

  test("slow by 5 s: misses get 503 and wait for no answer of it; then leases end, and come back", async () => {
    await warm();
    const fresh: string[] = [];
    for (let n = 0; n < 100; n += 1) fresh.push((await notYetUsed()).value);
    const running = load();
    await each(({ mongo }) => mongo.delay(2_500));
    const misses: { outcome: string; ms: number }[] = [];
    await Promise.all(
      fresh.map(async (value) => {
        const sentMs = performance.now();
        const { outcome } = await callers[1]!.use("rest-h2", value);
        misses.push({ outcome, ms: performance.now() - sentMs });
      }),
    );
    for (const member of fleet.members) await member.untilReadyz(503);
    await each(({ mongo }) => mongo.mend());
    const mendedMs = running.nowMs();
    for (const member of fleet.members) await member.untilReadyz(200);
    const backMs = running.nowMs() - mendedMs;
    await running.end();
    const longestMs = Math.max(...misses.map(({ ms }) => ms));
    figure("slow by 5 s: the last 503 of 100 misses after", longestMs / 1_000, "s");
    figure("slow by 5 s: back after", backMs / 1_000, "s");
    expectOnlyUnavailable(running.uses);
    expect(new Set(misses.map(({ outcome }) => outcome))).toEqual(new Set(["unavailable"]));
  });
});

/** A key that no instance has in its cache. */
async function notYetUsed(): Promise<{ keyId: string; value: string }> {
  const { id, value } = await management.newKey(teamId);
  return { keyId: id, value };
}

async function each(work: (member: FleetMember) => Promise<unknown>): Promise<void> {
  await Promise.all(fleet.members.map(work));
}
