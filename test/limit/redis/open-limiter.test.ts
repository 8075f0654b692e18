import { setTimeout as pause } from "node:timers/promises";
import { inspect } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import type { KeyLimit, LimitDecision } from "#src/limit/limit-decision.ts";
import { type OpenLimiterParts, openSharedLimiter } from "#src/limit/redis/open-limiter.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { eventually, whileDisturbed } from "../../harness/eventually.ts";
import { fleetOfRedis } from "../../harness/fleet-of-redis.ts";
import { freePort } from "../../harness/free-port.ts";
import { clientOfTest, describeOnRedis, type RedisServer, redisOfTest } from "../../harness/redis-server.ts";
import { openTcpProxy } from "../../harness/tcp-proxy.ts";

/** No test takes so long that a request leaves it. */
const windowMs = 600_000;

/** How often a limiter of this file has switched to its share, or back. */
let switches = 0;

/** Does it again where it fails, and a busy machine made Redis silent for 100 ms meanwhile. */
const unlessSwitched = (story: () => Promise<void>) =>
  eventually(
    story,
    whileDisturbed(() => switches),
  );

async function open(redisUrl: string, parts: Partial<OpenLimiterParts> = {}) {
  const limiter = await openSharedLimiter({
    ...{ redisUrl, fleet: fleetOfRedis(), fallback: "share", clock: systemClock, windowMs },
    // A busy machine may need several attempts.
    startMsMax: 200_000,
    sharePlace: () => ({ place: 0, of: 1 }),
    events: { modeChanged: () => void switches++ },
    ...parts,
  });
  onTestFinished(limiter.close);
  return limiter;
}

const openAll = (server: RedisServer, of: number) =>
  Promise.all(
    Array.from({ length: of }, (_, place) => open(server.url, { sharePlace: () => ({ place, of }) })),
  );

const accepted = (decisions: readonly LimitDecision[]) => decisions.filter((one) => one.accepted).length;

interface Fault {
  readonly begin: () => unknown;
  readonly end: () => unknown;
}

const faults: Record<string, (server: RedisServer) => Promise<Fault>> = {
  "is killed and comes back empty": async (server) => ({
    begin: server.kill,
    end: () => redisOfTest([], server.port),
  }),
  "is frozen": async (server) => ({ begin: server.freeze, end: server.thaw }),
  "becomes a read-only replica": async (server) => {
    const admin = await clientOfTest(server);
    return {
      begin: () => admin.sendCommand(["REPLICAOF", "127.0.0.1", "1"]),
      end: () => admin.sendCommand(["REPLICAOF", "NO", "ONE"]),
    };
  },
  "is out of memory": async (server) => {
    const admin = await clientOfTest(server);
    const setMaxMemory = (bytes: string) => admin.sendCommand(["CONFIG", "SET", "maxmemory", bytes]);
    return { begin: () => setMaxMemory("1"), end: () => setMaxMemory("0") };
  },
};

describeOnRedis("while Redis does not answer", () => {
  test.each([...Object.entries(faults), ["is cut off without a word", undefined] as const])(
    "because it %s, each instance admits its share and no more, and all come back to the shared log",
    async (_, faultOf) => {
      const server = await redisOfTest();
      const members = await Promise.all(
        [0, 1, 2].map(async (place) => {
          const proxy = await openTcpProxy({ host: "127.0.0.1", port: server.port });
          onTestFinished(proxy.close);
          const sharePlace = () => ({ place, of: 3 });
          return { proxy, limiter: await open(`redis://127.0.0.1:${proxy.port}`, { sharePlace }), passed: 0 };
        }),
      );
      const spend = async (member: (typeof members)[number]) => {
        if ((await member.limiter.spend("team", 60, 1)).accepted) member.passed += 1;
        return member.limiter.mode();
      };
      const cutOff: Fault = {
        begin: () => members.forEach(({ proxy }) => void proxy.freeze()),
        end: () => members.forEach(({ proxy }) => void proxy.mend()),
      };
      const fault = (await faultOf?.(server)) ?? cutOff;
      for (const member of members) for (let n = 0; n < 5; n++) await spend(member);
      expect(members.map(({ passed }) => passed)).toEqual([5, 5, 5]);
      await fault.begin();
      for (const member of members) {
        await expect.poll(() => spend(member)).toBe("share");
        for (let n = 0; n < 30; n++) await spend(member);
      }
      expect(members.map(({ passed }) => passed)).toEqual([20, 20, 20]);
      await fault.end();
      for (const { limiter } of members) await expect.poll(() => limiter.mode()).toBe("shared");
      for (const member of members) await spend(member);
      // Redis may have lost what it counted: what they admitted without it still counts here.
      expect(members.map(({ passed }) => passed)).toEqual([20, 20, 20]);
    },
  );

  test("calls that wait in a frozen server spend nothing when it wakes", () =>
    unlessSwitched(async () => {
      const server = await redisOfTest();
      const admin = await clientOfTest(server);
      const limiter = await open(server.url);
      await limiter.spend("team", 1_000, 7);
      server.freeze();
      const parked = [];
      for (let n = 0; n < 50; n++) {
        parked.push(limiter.spend("team", 1_000, 1));
        await pause(1);
      }
      await Promise.all(parked);
      // Only the first had its whole time. The others ended with it.
      server.thaw();
      await expect.poll(() => limiter.mode()).toBe("shared");
      expect(await admin.lLen("keyrun:fleet:{team}:log")).toBe(7);
    }));
});

const busPort = String(await freePort());

describeOnRedis("a start", () => {
  const refusal = async (url: string, parts: Partial<OpenLimiterParts> = {}) => {
    const thrown: unknown = await open(url, parts).catch((caught: unknown) => caught);
    expect(thrown).toBeInstanceOf(StartRefused);
    expect(inspect(thrown)).not.toMatch(/QqZz77|redis:\/\//);
    return String(thrown);
  };

  test("is refused in words where nothing answers", async () => {
    const once = { startMsMax: 0 };
    const port = await freePort();
    expect(await refusal(`redis://:QqZz77@127.0.0.1:${port}`, once)).toMatch(/ECONNREFUSED.*that Redis runs/);
    const server = await redisOfTest();
    server.freeze();
    expect(await refusal(server.url, once)).toMatch(/silent for 1000 ms/);
  });

  test.each([
    ["of a wrong password", [], "QqZz77", /user or password/],
    ["of a missing password", ["--requirepass", "secret"], "", /user or password/],
    ["of another password", ["--requirepass", "secret"], "QqZz77", /user or password/],
    // Its nodes talk at 10,000 above its port otherwise, which may be no port.
    ["of a Redis Cluster", ["--cluster-enabled", "yes", "--cluster-port", busPort], "", /Redis Cluster/],
    ["evictions would empty logs", ["--maxmemory-policy", "allkeys-lru"], "", /maxmemory-policy allkeys-lru/],
    ["a replica can't count", ["--replicaof", "127.0.0.1 1"], "", /read-only replica/],
    ["there is no memory", ["--maxmemory", "1"], "", /out of memory/],
  ])("is refused in words because %s", async (_, options, password, words) => {
    const { port } = await redisOfTest(options);
    expect(await refusal(`redis://${password && `:${password}@`}127.0.0.1:${port}`)).toMatch(words);
  });

  test("waits for a Redis that starts a moment later", async () => {
    const port = await freePort();
    const opening = open(`redis://127.0.0.1:${port}`);
    await redisOfTest([], port);
    expect((await opening).mode()).toBe("shared");
  });

  test("takes a user and a password", async () => {
    const { port } = await redisOfTest(["--requirepass", "p/w@1"]);
    const limiter = await open(`redis://default:${encodeURIComponent("p/w@1")}@127.0.0.1:${port}/3`);
    expect(await limiter.spend("team", 2, 1)).toMatchObject({ accepted: true, remaining: 1 });
  });
});

describeOnRedis("with an exact limit of several instances", () => {
  test("of 10,000 requests at once over three instances exactly N pass, and all numbers are the team's", () =>
    unlessSwitched(async () => {
      const limiters = await openAll(await redisOfTest(), 3);
      const beganMs = Date.now();
      const decisions = await Promise.all(
        Array.from({ length: 10_000 }, (_, n) => limiters[n % 3]!.spend("team", 3_000, 1)),
      );
      const endedMs = Date.now();
      const passed = decisions.filter((decision) => decision.accepted);
      expect(passed).toHaveLength(3_000);
      // Each sees another number of the one log.
      expect(new Set(passed.map(({ remaining }) => remaining)).size).toBe(3_000);
      const resets = decisions.map(({ resetUnixMs }) => resetUnixMs);
      expect(Math.min(...resets)).toBeGreaterThanOrEqual(beganMs + windowMs - 1);
      expect(Math.max(...resets)).toBeLessThanOrEqual(endedMs + windowMs);
      for (const limiter of limiters) {
        expect(await limiter.spend("team", 3_000, 0)).toMatchObject({ accepted: true, remaining: 0 });
        expect(limiter.peek("team", 3_000)).toMatchObject({ accepted: true, limit: 3_000, remaining: 0 });
        expect(limiter.peek("other", 3_000).remaining).toBe(3_000);
      }
    }));

  test("scripts that someone flushed are loaded again without a request noticing", () =>
    unlessSwitched(async () => {
      const server = await redisOfTest();
      const admin = await clientOfTest(server);
      const limiter = await open(server.url);
      const before = switches;
      await limiter.spend("team", 9, 1);
      await admin.scriptFlush();
      expect(await limiter.spend("team", 9, 1)).toMatchObject({ accepted: true, remaining: 7 });
      expect(switches).toBe(before);
    }));
});

const key = (limit: number, firstKeyId = "k"): KeyLimit => ({ firstKeyId, limit });

describeOnRedis("limits of keys that several instances share", () => {
  test.each([
    { team: 900, own: 250 },
    { team: 250, own: 900 },
    { team: 400, own: 400 },
  ])(
    "of 10,000 parallel requests exactly as many pass as the lower limit has: team $team, key $own",
    ({ team, own }) =>
      unlessSwitched(async () => {
        const limiters = await openAll(await redisOfTest(), 4);
        const spends = Array.from({ length: 10_000 }, (_, n) =>
          limiters[n % 4]!.spend("demo", team, 1, key(own)),
        );
        const decisions = await Promise.all(spends);
        const least = Math.min(team, own);
        expect(accepted(decisions)).toBe(least);
        const after = await limiters[0]!.spend("demo", team, 0, key(own));
        expect([after.remaining, after.key?.remaining]).toEqual([team - least, own - least]);
      }),
  );

  test("of parallel requests of several keys of a team, each gets at most its own limit, and all together the team's", () =>
    unlessSwitched(async () => {
      const limiters = await openAll(await redisOfTest(), 2);
      const keys = [key(40, "a"), key(70, "b"), undefined];
      const decisions = await Promise.all(
        Array.from({ length: 9_000 }, (_, n) => limiters[n % 2]!.spend("demo", 200, 1, keys[n % 3])),
      );
      const [ofA = 0, ofB = 0, others = 0] = keys.map((_, at) =>
        accepted(decisions.filter((_decision, n) => n % 3 === at)),
      );
      expect(ofA).toBeLessThanOrEqual(40);
      expect(ofB).toBeLessThanOrEqual(70);
      expect(ofA + ofB + others).toBe(200);
    }));

  test("both logs of a key lie under the tag of its team, expire, and are as long as what was spent", async () => {
    const server = await redisOfTest();
    const client = await clientOfTest(server);
    const limiter = await open(server.url);
    await limiter.spend("demo", 60, 3, key(5));
    await limiter.spend("demo", 60, 3, key(5));
    await limiter.spend("demo", 60, 1);
    expect((await client.keys("keyrun:fleet:{*")).sort()).toEqual([
      "keyrun:fleet:{demo}:key:k:log",
      "keyrun:fleet:{demo}:log",
    ]);
    expect(await client.lLen("keyrun:fleet:{demo}:log")).toBe(4);
    expect(await client.lLen("keyrun:fleet:{demo}:key:k:log")).toBe(3);
    expect(await client.pTTL("keyrun:fleet:{demo}:key:k:log")).toBeGreaterThan(windowMs - 5_000);
    expect(limiter.peek("demo", 60, key(5))).toMatchObject({ remaining: 56, key: { remaining: 2 } });
  });
});
