import { createClient } from "redis";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Answer, Ask, LogState } from "#src/limit/redis/shared-logs.ts";
import { readSpendReply, spendArguments, spendScript } from "#src/limit/redis/spend-script.ts";
import { campaignSize, figure, figures } from "../../harness/campaigns.ts";
import { describeOnRedis, type RedisServer, startRedis } from "../../harness/redis-server.ts";
import { createRandom } from "../../harness/seeded-random.ts";
import { createNaiveLog, type NaiveLog, spendBothNaively } from "../naive-log.ts";

const windowMs = 60_000;
const windowUs = windowMs * 1_000;

/** The script with a clock that the test sets. */
const clockLine = "local time = redis.call('TIME')";
const testScript = spendScript.replace(clockLine, "local time = {0, ARGV[#ARGV]}");

describeOnRedis("the script", () => {
  let server: RedisServer;
  let client: ReturnType<typeof createClient>;
  let sha: string;

  beforeAll(async () => {
    server = await startRedis();
    client = createClient({ url: server.url, RESP: 2 });
    await client.connect();
    sha = await client.scriptLoad(testScript);
  });

  afterAll(async () => {
    client.destroy();
    await server.kill();
  });

  async function spendAt(us: number, asks: readonly Ask[]): Promise<readonly Answer[]> {
    const words = spendArguments(asks, { fleetId: "fleet", windowMs, deadlineUs: us });
    const reply = await client.sendCommand(["EVALSHA", sha, ...words, String(us)]);
    return readSpendReply(reply, asks).answers!;
  }

  let teams = 0;
  const newTeam = () => `team-${teams++}`;

  test("the script reads the server's clock in one place, which these tests replace", () => {
    expect(spendScript.split("'TIME'")).toHaveLength(2);
    expect(testScript).not.toBe(spendScript);
  });

  test("many commands of keys with and without a limit of their own get the same decision, remaining, reset and wait as naive logs", async () => {
    const commands = campaignSize("limit-commands");
    const { next: random, pick } = createRandom(1_618);
    const limits = [1, 2, 3, 5, 8, 13, 20];
    const seen = {
      ...{ taken: 0, byTeam: 0, byKey: 0, byBoth: 0, partly: 0, plain: 0, plainRefused: 0 },
      ...{ downgradeWaits: 0, edges: 0, backSteps: 0 },
    };
    let us = 1_790_000_000_000_000;
    let done = 0;
    let worlds = newTeams();
    let waitsUs = [0];
    for (let call = 0; done < commands; call++) {
      if (call % 1_000 === 999) worlds = newTeams();
      const kind = random();
      if (kind < 0.01) {
        us -= Math.floor(random() * 100_000_000);
        seen.backSteps++;
      } else if (kind < 0.3) {
        us += Math.max(0, Math.round(pick(waitsUs)) + pick([-1, 0, 1]));
        seen.edges++;
      } else if (kind < 0.31) us += Math.floor(random() * 200_000_000);
      else if (kind < 0.9) us += Math.floor(random() * 4_000_000);
      const spends = worlds.flatMap((world) =>
        Array.from({ length: 2 }, () => {
          if (random() < 0.02) world.limit = pick(limits);
          if (random() < 0.02) pick(world.keys).limit = pick(limits);
          const own = random() < 0.25 ? undefined : pick(world.keys);
          const costMax = Math.min(world.limit, own?.limit ?? world.limit);
          const cost = random() < 0.7 ? 1 : Math.floor(random() * (costMax + 1));
          const ask: Ask = {
            ...{ teamId: world.teamId, limit: world.limit, cost, count: pick([1, 1, 1, 2, 4]) },
            key: own && { firstKeyId: own.firstKeyId, limit: own.limit },
          };
          return { world, own, ask };
        }),
      );
      const answers = await spendAt(
        us,
        spends.map(({ ask }) => ask),
      );
      waitsUs = [];
      for (const [n, { world, own, ask }] of spends.entries()) {
        const answer = answers[n]!;
        const wanted = decideNaively(world.log, own?.log, us, ask);
        const got = stateOf(answer, ask.limit);
        const gotKey = answer.key && stateOf(answer.key, ask.key?.limit ?? 0);
        const same =
          answer.taken === wanted.taken &&
          sameFields(got, wanted.team) &&
          (gotKey === undefined ? wanted.key === undefined : sameFields(gotKey, wanted.key ?? {}));
        if (!same) expect({ call, n, taken: answer.taken, team: got, key: gotKey }).toEqual(wanted);
        done += ask.count;
        waitsUs.push(got.waitUs, got.resetAfterUs, ...(gotKey ? [gotKey.waitUs, gotKey.resetAfterUs] : []));
        if (got.waitUs > 0 && answer.count > ask.limit) seen.downgradeWaits++;
        if (own === undefined) seen[answer.taken === ask.count ? "plain" : "plainRefused"]++;
        else if (answer.taken === ask.count) seen.taken++;
        else if (answer.taken > 0) seen.partly++;
        else if (got.waitUs > 0 && gotKey!.waitUs > 0) seen.byBoth++;
        else if (got.waitUs > 0) seen.byTeam++;
        else seen.byKey++;
      }
    }
    for (const [name, count] of Object.entries(seen)) {
      expect(count, name).toBeGreaterThan(name === "backSteps" ? commands / 50_000 : commands / 1_000);
    }
    figures("the script", { commands: done, ...seen });

    function newTeams() {
      const log = () => createNaiveLog(windowUs / 1024, { clock: "of entries" });
      return Array.from({ length: 10 }, () => ({
        ...{ teamId: newTeam(), limit: 8, log: log() },
        keys: ["a", "b"].map((firstKeyId) => ({ firstKeyId, limit: 5, log: log() })),
      }));
    }
  });

  const startUs = 1_790_000_000_000_000;

  test("a call after its deadline spends nothing and says the server's time", async () => {
    const teamId = newTeam();
    const asks: Ask[] = [{ teamId, limit: 5, cost: 1, count: 1 }];
    const words = spendArguments(asks, { fleetId: "fleet", windowMs, deadlineUs: startUs });
    const late = await client.sendCommand(["EVALSHA", sha, ...words, String(startUs + 1)]);
    expect(readSpendReply(late, asks)).toEqual({ serverUs: startUs + 1, answers: undefined });
    expect(await client.exists(`keyrun:fleet:{${teamId}}:log`)).toBe(0);
    expect(await spendAt(startUs, asks)).toMatchObject([{ taken: 1, count: 1 }]);
  });

  test("looking and being refused leave no trace", async () => {
    const teamId = newTeam();
    const key = `keyrun:fleet:{${teamId}}:log`;
    await spendAt(startUs, [{ teamId, limit: 5, cost: 0, count: 3 }]);
    expect(await client.exists(key)).toBe(0);
    await spendAt(startUs, [{ teamId, limit: 5, cost: 4, count: 1 }]);
    await client.persist(key);
    const refusedAndLooked = [
      { teamId, limit: 5, cost: 2, count: 9 },
      { teamId, limit: 5, cost: 0, count: 1 },
    ];
    expect(await spendAt(startUs + 1_000, refusedAndLooked)).toMatchObject([
      { taken: 0, count: 4, retryAfterMs: 59_999 },
      { taken: 1, count: 4, retryAfterMs: 0 },
    ]);
    expect([await client.lLen(key), await client.pTTL(key)]).toEqual([4, -1]);
  });

  test("a log expires with its last entry, and a cost of many thousands is taken whole", async () => {
    const teamId = newTeam();
    const key = `keyrun:fleet:{${teamId}}:log`;
    await spendAt(startUs, [{ teamId, limit: 100_000, cost: 100_000, count: 1 }]);
    expect(await client.lLen(key)).toBe(100_000);
    const remainingMs = await client.pTTL(key);
    expect(remainingMs).toBeGreaterThan(windowMs - 5_000);
    expect(remainingMs).toBeLessThanOrEqual(windowMs + 10);
    const later = startUs + windowUs;
    expect(await spendAt(later - 1, [{ teamId, limit: 100_000, cost: 1, count: 1 }])).toMatchObject([
      { taken: 0, retryAfterMs: 0.001 },
    ]);
    await spendAt(later, [{ teamId, limit: 100_000, cost: 1, count: 1 }]);
    expect(await client.lLen(key)).toBe(1);
  });

  test("a log takes at most 256 bytes, and 16 for each accepted request", async () => {
    const worst = { perTeam: 0, perRequest: 0 };
    for (const requests of [1, 2, 60, 300, 3_000, 100_000]) {
      // The longest id of a team. That of the fleet is as long as a real one.
      const teamId = newTeam().padEnd(63 + 12 - "fleet".length, "x");
      for (let sent = 0; sent < requests; sent += requests / Math.min(requests, 100)) {
        const cost = requests / Math.min(requests, 100);
        await spendAt(startUs + sent * 7, [{ teamId, limit: requests, cost, count: 1 }]);
      }
      const key = `keyrun:fleet:{${teamId}}:log`;
      expect(await client.lLen(key)).toBe(requests);
      const bytes = Number(await client.sendCommand(["MEMORY", "USAGE", key, "SAMPLES", "0"]));
      expect(bytes, `${requests} requests`).toBeLessThanOrEqual(256 + 16 * requests);
      if (requests === 1) worst.perTeam = bytes;
      else worst.perRequest = Math.max(worst.perRequest, requests >= 300 ? bytes / requests : 0);
    }
    figures("bytes", { "a team of one": worst.perTeam, "a request": worst.perRequest });
  });

  test("a log takes at most 16 bytes for each request, and 256 for the team", async () => {
    const { next: random } = createRandom(7);
    const [teams, requests] = [20, 600];
    let bytes = 0;
    for (let team = 0; team < teams; team++) {
      const teamId = `a-team-with-a-long-name-${team}`;
      // At times of their own, in the 50 s of a window.
      const times = Array.from({ length: requests }, () => startUs + Math.floor(random() * 50_000_000));
      for (const us of times.toSorted()) await spendAt(us, [{ teamId, limit: requests, cost: 1, count: 1 }]);
      const key = `keyrun:fleet:{${teamId}}:log`;
      bytes += Number(await client.sendCommand(["MEMORY", "USAGE", key, "SAMPLES", "0"]));
    }
    const each = (bytes - teams * 256) / (teams * requests);
    figure(`${requests} requests`, each, "bytes a request");
    figure(`${requests} requests: 10,000 teams`, ((bytes / teams) * 10_000) / 1e6, "MB");
    expect(each).toBeLessThanOrEqual(16);
  });
});

/** The spends of an ask, one after the other. A tick of the naive logs is a microsecond. */
function decideNaively(
  team: NaiveLog,
  key: NaiveLog | undefined,
  us: number,
  { limit, cost, count, key: { limit: keyLimit } = { firstKeyId: "", limit: 0 } }: Ask,
) {
  const inUs = ({ waitMs, remaining, resetAfterMs }: ReturnType<NaiveLog["spend"]>) => ({
    ...{ remaining, waitUs: Math.round(waitMs * 1024), resetAfterUs: Math.round(resetAfterMs * 1024) },
  });
  let taken = 0;
  let [teamState, keyState] = [{ remaining: 0, waitUs: 0, resetAfterUs: 0 }, undefined as object | undefined];
  for (let n = 0; n < count; n++) {
    // A clock that was set back stands still at the newest request of both logs.
    const nowMs = Math.max(us / 1024, team.newestMs(), key?.newestMs() ?? Number.NEGATIVE_INFINITY);
    if (key === undefined) {
      teamState = inUs(team.spend(nowMs, limit, cost));
      if (teamState.waitUs === 0) taken++;
      continue;
    }
    const both = spendBothNaively({ team, key }, nowMs, { limit, keyLimit, cost });
    [teamState, keyState] = [inUs(both.team), inUs(both.key)];
    if (both.accepted) taken++;
  }
  return { taken, team: teamState, key: keyState };
}

function stateOf({ count, resetAfterMs, retryAfterMs }: LogState, limit: number) {
  return {
    remaining: Math.max(0, limit - count),
    waitUs: Math.round(retryAfterMs * 1_000),
    resetAfterUs: Math.round(resetAfterMs * 1_000),
  };
}

function sameFields(one: object, other: object): boolean {
  const entries = Object.entries(one);
  return entries.every(([name, value]) => Object.is(value, new Map(Object.entries(other)).get(name)));
}
