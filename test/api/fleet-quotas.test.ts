import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { QuotaPeriod } from "#gen/keyrun/v1/quota_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { systemClock } from "#src/base/clock.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import type { Stores } from "#src/store/stores.ts";
import { eventually, whileBusy } from "../harness/eventually.ts";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import type { Keyrun } from "../harness/keyrun.ts";
import { restRunOnce, servedRun } from "../harness/keyrun-process.ts";

const settings = (pro: number) => ({
  KEYRUN_PLAN_QUOTAS: `free=5/month,pro=${pro}/month,team=200/month,enterprise=1000/month`,
  KEYRUN_PLAN_LIMITS: "free=10000,pro=10000,team=10000,enterprise=10000",
});
/** Of a refusal where another instance may still give requests back, at most. */
const idleS = 10;

/** The wall clock of all instances stands still until a test sets it. */
let unixMs = Date.parse("2026-11-15T12:00:00Z");
const clock = { monotonicMs: systemClock.monotonicMs, unixMs: () => unixMs };

describeFleet("here")("quotas in a fleet", () => {
  let fleet: FleetHere;
  let [one, other]: Keyrun[] = [];
  let isAway = false;
  beforeAll(async () => {
    fleet = await startFleet({
      ...{ in: "here", settings: settings(5_000) },
      each: [{ clock, onStores: cutOff }, { clock }],
    });
    [one, other] = fleet.members;
  });
  afterAll(() => fleet?.close());

  /** The real stores of an instance, whose claims of quotas a test can cut off. */
  function cutOff(stores: Stores): Stores {
    const change: Stores["quotas"]["change"] = async (changes) => {
      if (isAway) throw unavailable();
      return stores.quotas.change(changes);
    };
    return { ...stores, quotas: { ...stores.quotas, change } };
  }

  /** The status of a run, and for how long a refusal says to wait. */
  async function run({ publicUrl }: Keyrun, value: string): Promise<{ status: number; waitS: number }> {
    const { status, headers, body } = await servedRun(publicUrl, { value });
    if (status === 429) expect(body).toContain('"quota_exceeded"');
    return { status, waitS: Number(headers.get("retry-after") ?? 0) };
  }

  /** How many of so many requests at once are admitted. */
  async function admitted(keyrun: Keyrun, value: string, times: number): Promise<number> {
    const answers = await Promise.all(Array.from({ length: times }, () => run(keyrun, value)));
    for (const { status } of answers) expect([200, 429]).toContain(status);
    return answers.filter(({ status }) => status === 200).length;
  }

  /** How many are admitted until no instance may give any back. */
  async function spendAll(members: readonly Keyrun[], values: readonly string[]): Promise<number> {
    const spend = async (keyrun: Keyrun, value: string): Promise<number> => {
      for (let count = 0; ; ) {
        const { status, waitS } = await run(keyrun, value);
        if (status === 200) count += 1;
        else if (waitS > idleS) return count;
        else await pause(100);
      }
    };
    const counts = await Promise.all(members.flatMap((each) => values.map((value) => spend(each, value))));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async function newKey(plan: Plan, more: Parameters<Keyrun["newKey"]>[1] = {}) {
    return one!.newKey(await one!.newTeam(plan), more);
  }

  const grant = (keyrun: Keyrun, order: { teamId: string; requests: bigint; requestId: string }) =>
    eventually(async () => (await keyrun.teams.grantRequests(order)).quota, whileBusy);

  test("a grant counts with its answer on the instance that answered, and a second later on another", async () => {
    const { teamId, value } = await newKey(Plan.FREE);
    expect(await spendAll([one!, other!], [value])).toBe(5);
    expect((await run(one!, value)).status).toBe(429);
    await grant(one!, { teamId, requests: 4n, requestId: randomUUID() });
    const answeredMs = performance.now();
    expect((await run(one!, value)).status).toBe(200);
    for (;;) {
      const afterMs = performance.now() - answeredMs;
      const { status } = await run(other!, value);
      if (status === 200) break;
      expect(afterMs).toBeLessThan(1_000);
      await pause(20);
    }
    expect(await spendAll([one!, other!], [value])).toBe(2);
  });

  test("a grant that races with its own repeats counts once", async () => {
    const { teamId, value } = await newKey(Plan.FREE);
    await run(one!, value);
    const order = { teamId, requests: 3n, requestId: randomUUID() };
    const racing = [one!, other!, one!, other!, one!, other!].map((each) => grant(each, order));
    for (const quota of await Promise.all(racing)) expect(quota).toMatchObject({ limit: 5n, granted: 3n });
    for (const { teams } of [one!, other!]) {
      expect((await teams.getRateLimit({ teamId })).quota).toMatchObject({ granted: 3n });
    }
    expect(await spendAll([one!, other!], [value])).toBe(7);
  });

  test("a quota that a new instance lowers holds with the end of its start, whatever the others hold", async () => {
    const { value } = await newKey(Plan.PRO);
    expect(await admitted(one!, value, 30)).toBe(30);
    expect(await admitted(other!, value, 30)).toBe(30);
    const third = await fleet.start({ clock, settings: settings(100) });
    onTestFinished(() => third.close());
    const members = [one!, other!, third];
    const atOnce = await Promise.all(members.map((each) => admitted(each, value, 50)));
    const first = atOnce.reduce((sum, count) => sum + count, 0);
    expect(first).toBeLessThanOrEqual(40);
    expect(first + (await spendAll(members, [value]))).toBe(40);
  });

  test("a smaller plan holds with the answer on every instance, whatever they hold by the larger one", async () => {
    const { teamId, value } = await newKey(Plan.ENTERPRISE);
    for (const each of [one!, other!]) expect(await admitted(each, value, 95)).toBe(95);
    await one!.teams.updateTeam({ team: { id: teamId, plan: Plan.TEAM }, updateMask: { paths: ["plan"] } });
    const atOnce = await Promise.all([one!, other!].map((each) => admitted(each, value, 15)));
    const first = atOnce.reduce((sum, count) => sum + count, 0);
    expect(first).toBeLessThanOrEqual(10);
    expect(first + (await spendAll([one!, other!], [value]))).toBe(10);
  });

  test("a team that has the id of a deleted one begins anew, whatever instances held of the quota", async () => {
    const { teamId, id: keyId, value } = await newKey(Plan.TEAM);
    for (const each of [one!, other!]) expect(await admitted(each, value, 5)).toBe(5);
    await one!.keys.revokeKey({ teamId, keyId });
    await one!.teams.deleteTeam({ teamId });
    await one!.teams.createTeam({ team: { id: teamId, plan: Plan.TEAM } });
    for (const { teams } of [one!, other!]) {
      expect((await teams.getRateLimit({ teamId })).quota).toMatchObject({ used: 0n, granted: 0n });
    }
    const again = await other!.newKey(teamId);
    expect(await spendAll([one!, other!], [again.value])).toBe(200);
  });

  test("a key that is made after another was revoked has a quota of its own", async () => {
    const quota = { requests: 60n, period: QuotaPeriod.MONTH };
    const { teamId, id: keyId, value } = await newKey(Plan.ENTERPRISE, { quota });
    for (const each of [one!, other!]) expect(await admitted(each, value, 1)).toBe(1);
    await one!.keys.revokeKey({ teamId, keyId });
    const next = await other!.newKey(teamId, { quota });
    expect(await spendAll([one!, other!], [next.value])).toBe(60);
  });

  test("ten rotations in the last second of a period gain nothing, in it or in the next", async () => {
    const quota = { requests: 6n, period: QuotaPeriod.DAY };
    const old = await newKey(Plan.ENTERPRISE, { quota });
    unixMs = Date.parse("2026-11-15T23:59:59Z");
    let [keyId, value] = [old.id, old.value];
    let count = await admitted(one!, value, 2);
    let values: string[] = [];
    for (let turn = 1; turn <= 10; turn += 1) {
      const by = turn % 2 === 0 ? other! : one!;
      // With an overlap the last two are valid at once.
      const overlap = durationFromMs(turn < 10 ? 0 : 3_600_000);
      const rotated = await by.keys.rotateKey({ teamId: old.teamId, keyId, overlap });
      values = [value, rotated.value];
      [keyId, value] = [rotated.key?.id ?? "", rotated.value];
      count += await admitted(by, value, 1);
    }
    const both = [one!, other!].flatMap((each) => values.map((value) => admitted(each, value, 1)));
    for (const more of await Promise.all(both)) count += more;
    expect(count).toBe(6);
    expect(await run(other!, value)).toEqual({ status: 429, waitS: 1 });
    unixMs = Date.parse("2026-11-16T00:00:00Z");
    expect(await spendAll([one!, other!], values)).toBe(6);
  });

  test("what another instance holds is told in seconds, and goes back once it is idle there", async () => {
    const { value } = await newKey(Plan.TEAM);
    expect((await run(one!, value)).status).toBe(200);
    let count = 1;
    let refused = await run(other!, value);
    for (; refused.status === 200; refused = await run(other!, value)) count += 1;
    expect(count).toBeLessThan(200);
    expect(refused.waitS).toBeGreaterThan(0);
    expect(refused.waitS).toBeLessThanOrEqual(idleS);
    expect(count + (await spendAll([other!], [value]))).toBe(200);
  });

  test("the store away: what is held is admitted, then 503 and never 429; another instance goes on", async () => {
    const { value } = await newKey(Plan.ENTERPRISE);
    // A block of 1,000 requests is 20.
    expect((await run(one!, value)).status).toBe(200);
    isAway = true;
    onTestFinished(() => {
      isAway = false;
    });
    for (let n = 0; n < 19; n += 1) expect((await run(one!, value)).status).toBe(200);
    for (let n = 0; n < 5; n += 1) {
      const { status, body } = await restRunOnce(one!.publicUrl, { value });
      expect([status, body]).toEqual([503, expect.stringContaining('"unavailable"')]);
    }
    expect(await admitted(other!, value, 30)).toBe(30);
    isAway = false;
    expect((await run(one!, value)).status).toBe(200);
  });
});
