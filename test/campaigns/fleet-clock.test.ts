import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { eventually, Undecided, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import type { Answer, FleetCaller } from "../harness/fleet-caller.ts";
import type { manage } from "../harness/keyrun.ts";

const frozenSeconds = campaignSize("fleet-clocks");
/** Requests at a time, each on a connection of its own. */
const atOnce = 8;

let fleet: Fleet;
let management: ReturnType<typeof manage>;
let caller: FleetCaller;
let value: string;
let teamId: string;

interface Use extends Answer {
  readonly sentMs: number;
  readonly answeredMs: number;
}

async function use(): Promise<Use> {
  const sentMs = performance.now();
  const answer = await caller.use("rest", value);
  return { ...answer, sentMs, answeredMs: performance.now() };
}

async function takeNewKey(): Promise<void> {
  teamId = await management.newTeam();
  ({ value } = await management.newKey(teamId));
}

async function servedUse(): Promise<Use> {
  return eventually(
    use,
    whileAnswer(({ outcome }) => outcome !== "accepted"),
  );
}

/** Uses the key again and again, until the last of them were accepted for half a second. */
async function usesUntilBack(since: number): Promise<{ uses: Use[]; backMs: number }> {
  const uses: Use[] = [];
  for (;;) {
    uses.push(await use());
    const trouble = uses.findLast(({ outcome }) => outcome !== "accepted");
    const good = uses.find(({ sentMs }) => sentMs > (trouble?.sentMs ?? since));
    if (good && performance.now() - good.sentMs > 500) {
      return { uses, backMs: trouble ? trouble.answeredMs - since : 0 };
    }
    await pause(5);
  }
}

function expectAcceptedOr503(uses: readonly Use[]): void {
  const wrong = uses.filter(({ outcome }) => outcome !== "accepted" && outcome !== "unavailable");
  expect(wrong.map(({ outcome, body }) => `${outcome} ${body.slice(0, 200)}`)).toEqual([]);
  for (const { outcome, headers } of uses) {
    if (outcome === "unavailable") expect(Number(headers["retry-after"])).toBeGreaterThanOrEqual(1);
  }
}

describeFleet("processes")("an instance of three that loses time", () => {
  beforeAll(async () => {
    fleet = await startFleet({
      in: "processes",
      fakeClocks: [0],
      settings: { KEYRUN_PLAN_LIMITS: "free=100000" },
    });
    management = fleet.manage(1);
    caller = fleet.caller();
    await takeNewKey();
    await servedUse();
  });
  afterAll(() => fleet?.close());

  /** Stops the instance with requests in its sockets, and returns what came of those. */
  async function stopFor(seconds: number) {
    const [member] = fleet.members;
    member!.pause();
    const parking = Array.from({ length: atOnce }, use);
    await pause(seconds * 1_000);
    const resumedMs = performance.now();
    member!.resume();
    const { uses, backMs } = await usesUntilBack(resumedMs);
    const parked = await Promise.all(parking);
    const all = [...parked, ...uses];
    const refused = all.filter(({ outcome }) => outcome !== "accepted").length;
    figure(`stopped for ${seconds} s: requests`, all.length);
    figure(`stopped for ${seconds} s: of them 503`, refused);
    figure(`stopped for ${seconds} s: back after`, backMs, "ms");
    expectAcceptedOr503(all);
    return { parked, uses };
  }

  test("stopped for 2 s, it goes on: its lease holds, and what it sheds is served again", async () => {
    const attempt = async () => {
      const before = fleet.members[0]!.starvation().length;
      const { parked, uses } = await stopFor(2);
      const troubles = fleet.members[0]!.starvation().slice(before);
      expect(troubles.filter((line) => line.includes("for dead"))).toEqual([]);
      // A machine that is busy, too, may also cost it a heartbeat or an answer of Redis.
      const others = troubles.filter((line) => !line.includes("the event loop is late"));
      const refused = [...parked, ...uses].filter(({ outcome }) => outcome !== "accepted");
      const isShed = refused.every(({ body }) => body.includes('"code":"overloaded"'));
      return { isShed, isStarved: others.length > 0 };
    };
    const isNone = whileAnswer<Awaited<ReturnType<typeof attempt>>>(
      ({ isShed, isStarved }) => !isShed && isStarved,
    );
    expect((await eventually(attempt, { ...isNone, triesMax: 5 })).isShed).toBe(true);
  });

  test(`stopped for ${frozenSeconds} s, it answers 503 and accepts nothing until it has registered again`, {
    timeout: 180_000 + frozenSeconds * 1_000,
  }, async () => {
    const { parked } = await stopFor(frozenSeconds);
    // What lay in its sockets was sent while its lease ran out.
    expect(parked.filter(({ body }) => body.includes('"code":"unavailable"')).length).toBeGreaterThan(0);
  });

  test("a step of the wall clock by an hour costs at most the time to the next heartbeat, and no limit or time of a key goes back", async () => {
    const [member] = fleet.members;
    let remaining = 0;
    let lastUse = 0n;
    let beganMs = Number.NEGATIVE_INFINITY;
    for (const [words, offset] of [
      ["forward", 3_600],
      ["back to now", 0],
      ["back", -3_600],
      ["forward to now", 0],
    ] as const) {
      // Within the minute of a team's log none of its uses leaves it.
      if (performance.now() - beganMs > 30_000) {
        await takeNewKey();
        beganMs = performance.now();
        remaining = Number((await servedUse()).headers["ratelimit-remaining"]);
        lastUse = 0n;
      }
      const steppedMs = performance.now();
      member!.setClock(offset);
      const { uses, backMs } = await usesUntilBack(steppedMs);
      const refused = uses.filter(({ outcome }) => outcome !== "accepted").length;
      figure(`wall clock ${words}: requests`, uses.length);
      figure(`wall clock ${words}: of them 503`, refused);
      figure(`wall clock ${words}: back after`, backMs, "ms");
      expectAcceptedOr503(uses);
      // The log of the team counts on: what was accepted, and not one more or less. Of what was
      // answered 503 a part may count: its answer of Redis came too late.
      const accepted = uses.filter(({ outcome }) => outcome === "accepted");
      const now = Number(accepted.at(-1)?.headers["ratelimit-remaining"]);
      if (performance.now() - beganMs > 60_000) throw new Undecided("a step took longer than a window");
      expect(remaining - now).toBeGreaterThanOrEqual(accepted.length);
      expect(remaining - now).toBeLessThanOrEqual(accepted.length + refused);
      remaining = now;
      const { keys } = await management.keys.listKeys({ teamId });
      const seconds = keys[0]?.lastUseTime?.seconds ?? 0n;
      expect(seconds).toBeGreaterThanOrEqual(lastUse);
      lastUse = seconds;
    }
  });
});
