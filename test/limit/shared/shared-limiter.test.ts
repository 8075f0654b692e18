import { inspect } from "node:util";
import { createClient } from "redis";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "#src/clock.ts";
import { createSharedLimiter, type SharedLimiterParts } from "#src/limit/shared/shared-limiter.ts";
import type { SharedLimiter } from "#src/limit/shared/switching-limiter.ts";
import type { LimitMode } from "#src/metrics/metrics.ts";
import { Refusal } from "#src/refusal/refusal.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { figure } from "../../harness/campaigns.ts";
import { fleetOfRedis } from "../../harness/fleet-of-redis.ts";
import { freePort } from "../../harness/free-port.ts";
import { quantile } from "../../harness/histogram.ts";
import { describeOnRedis, type RedisServer, startRedis } from "../../harness/redis-server.ts";
import { soon } from "../../harness/soon.ts";
import { openTcpProxy, type TcpProxy } from "../../harness/tcp-proxy.ts";

const windowMs = 1_000;
const limit = 60;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(options: readonly string[] = [], port?: number): Promise<RedisServer> {
  const server = await startRedis(options, port);
  closers.push(() => {
    server.thaw();
    return server.kill();
  });
  return server;
}

async function administer(server: RedisServer) {
  const client = createClient({ url: server.url, RESP: 2, socket: { reconnectStrategy: false } });
  client.on("error", () => {});
  await client.connect();
  closers.push(() => client.destroy());
  return client;
}

/** How often a limiter of this file has switched to its share, or back. */
let switches = 0;

/** Does it again where it fails, and a busy machine made Redis silent for 100 ms meanwhile. */
async function unlessSwitched(story: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const before = switches;
    try {
      return await story();
    } catch (thrown) {
      if (tries === 4 || switches === before) throw thrown;
    }
  }
}

async function open(redisUrl: string, parts: Partial<SharedLimiterParts> = {}) {
  const modes: LimitMode[] = [];
  const limiter = await createSharedLimiter({
    ...{ redisUrl, fleet: fleetOfRedis(), fallback: "share", clock: systemClock, windowMs, startMsMax: 0 },
    standing: () => ({ place: 0, of: 1 }),
    events: {
      modeChanged({ mode }) {
        switches += 1;
        modes.push(mode);
      },
    },
    ...parts,
  });
  closers.push(limiter.close);
  return { limiter, modes };
}

interface Member {
  readonly limiter: SharedLimiter;
  readonly modes: LimitMode[];
  readonly proxy: TcpProxy;
}

/** Instances that share a limit, each with its own way to Redis. */
async function openFleet(server: RedisServer, of: number, fallback: "share" | "refuse"): Promise<Member[]> {
  const members: Member[] = [];
  for (let place = 0; place < of; place++) {
    const proxy = await openTcpProxy({ host: "127.0.0.1", port: server.port });
    closers.push(proxy.close);
    const standing = () => ({ place, of });
    const url = `redis://127.0.0.1:${proxy.port}`;
    members.push({ ...(await open(url, { standing, fallback })), proxy });
  }
  return members;
}

/** Callers that send as fast as they are answered, with a short pause, until `stop`. */
function load(members: readonly Member[]) {
  const acceptedMs: number[] = [];
  const seen = { limited: 0, unavailable: 0, acceptedApart: 0 };
  const tookMs: number[] = [];
  let isOver = false;
  async function call({ limiter }: Member) {
    while (!isOver) {
      const beganMs = performance.now();
      try {
        const { accepted } = await limiter.spend("team", limit, 1);
        if (accepted) acceptedMs.push(performance.now());
        else seen.limited++;
        if (accepted && limiter.mode() === "share") seen.acceptedApart++;
      } catch (thrown) {
        if (!(thrown instanceof Refusal && thrown.reason === "UNAVAILABLE")) throw thrown;
        expect(thrown.retryAfterMs).toBe(1_000);
        seen.unavailable++;
      }
      tookMs.push(performance.now() - beganMs);
      await pause(2);
    }
  }
  const callers = members.flatMap((member) => [call(member), call(member), call(member)]);
  return {
    seen,
    acceptedMs,
    tookMs,
    async stop() {
      isOver = true;
      await Promise.all(callers);
    },
  };
}

/** The load goes on meanwhile. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The most of these times within any span a little shorter than the window. */
function mostInWindow(timesMs: readonly number[]): number {
  // The server counted each up to a call's time before its caller knew.
  const spanMs = windowMs - 110;
  let most = 0;
  let first = 0;
  for (const [n, timeMs] of timesMs.entries()) {
    while ((timesMs[first] ?? 0) <= timeMs - spanMs) first++;
    most = Math.max(most, n - first + 1);
  }
  return most;
}

interface Fault {
  readonly begin: () => unknown;
  readonly end: () => unknown;
}

const faults: Record<string, (server: RedisServer, members: readonly Member[]) => Promise<Fault>> = {
  "is killed and comes back empty": async (server) => ({
    begin: server.kill,
    end: () => start([], server.port),
  }),
  "is frozen": async (server) => ({ begin: server.freeze, end: server.thaw }),
  "is cut off without a word": async (_, members) => ({
    begin: () => members.forEach(({ proxy }) => void proxy.freeze()),
    end: () => members.forEach(({ proxy }) => void proxy.mend()),
  }),
  "becomes a read-only replica": async (server) => {
    const admin = await administer(server);
    return {
      begin: () => admin.sendCommand(["REPLICAOF", "127.0.0.1", "1"]),
      end: () => admin.sendCommand(["REPLICAOF", "NO", "ONE"]),
    };
  },
  "is out of memory": async (server) => {
    const admin = await administer(server);
    const setMaxMemory = (bytes: string) => admin.sendCommand(["CONFIG", "SET", "maxmemory", bytes]);
    return { begin: () => setMaxMemory("1"), end: () => setMaxMemory("0") };
  },
};

describeOnRedis("while Redis does not answer", () => {
  describe.each(Object.entries(faults))("because it %s", (name, faultOf) => {
    test("at most 2N pass in any window, none waits for long, and nobody crowds it or has to be restarted", async () => {
      const server = await start();
      const members = await openFleet(server, 3, "share");
      const fault = await faultOf(server, members);
      const { acceptedMs, tookMs, stop } = load(members);
      await pause(300);
      const beganMs = performance.now();
      await fault.begin();
      for (const { modes } of members) await soon(() => modes.at(-1)).toBe("share");
      await pause(1.2 * windowMs);
      const apart = acceptedMs.filter((timeMs) => timeMs > beganMs).length;
      await fault.end();
      for (const { modes } of members) await soon(() => modes.at(-1)).toBe("shared");
      const opened = members.map(({ proxy }) => proxy.opened());
      const seconds = (performance.now() - beganMs) / 1_000;
      await pause(1.2 * windowMs);
      await stop();
      // Before the fault, by the shares while it lasts, and after it.
      expect(apart).toBeGreaterThanOrEqual(limit - 3);
      expect(acceptedMs.length).toBeGreaterThanOrEqual(2 * limit);
      expect(mostInWindow(acceptedMs)).toBeLessThanOrEqual(2 * limit);
      expectNoWait(tookMs);
      // One a second and instance, after the first.
      for (const count of opened) expect(count).toBeLessThanOrEqual(2 + Math.ceil(seconds));
      // Redis itself may be starved for 100 ms before or after, now and then.
      for (const { modes } of members) {
        expect(modes).toEqual(modes.map((_, n) => (n % 2 === 0 ? "share" : "shared")));
        expect(modes.length).toBeLessThanOrEqual(8);
      }
      figure(`Redis ${name}: at most`, mostInWindow(acceptedMs) / limit, "times the limit");
      figure(`Redis ${name}: longest`, Math.max(...tookMs), "ms");
    });
  });

  test("with `refuse` every request is refused with UNAVAILABLE, and nothing more is spent", async () => {
    const server = await start();
    const members = await openFleet(server, 2, "refuse");
    const admin = await administer(server);
    const { seen, acceptedMs, tookMs, stop } = load(members);
    await pause(300);
    server.freeze();
    for (const { modes } of members) await soon(() => modes.at(-1)).toBe("refuse");
    const before = { accepted: acceptedMs.length, unavailable: seen.unavailable };
    await pause(windowMs);
    expect(acceptedMs.length).toBe(before.accepted);
    expect(seen.unavailable).toBeGreaterThan(before.unavailable + 50);
    await stop();
    server.thaw();
    for (const { modes } of members) await soon(() => modes.at(-1)).toBe("shared");
    expect(mostInWindow(acceptedMs)).toBeLessThanOrEqual(limit);
    expectNoWait(tookMs);
    expect(await admin.lLen("keyrun:fleet:{team}:log")).toBeLessThanOrEqual(before.accepted);
  });

  test("calls that wait in a frozen server spend nothing when it wakes", async () => {
    const server = await start();
    const admin = await administer(server);
    const { limiter, modes } = await open(server.url, { windowMs: 60_000 });
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
    await soon(() => modes.at(-1)).toBe("shared");
    expect(await admin.lLen("keyrun:fleet:{team}:log")).toBe(7);
  });
});

/**
 * Most take no longer than one may wait for Redis. A busy machine adds to each, and much to some.
 */
function expectNoWait(tookMs: readonly number[]): void {
  expect(quantile(tookMs, 0.5)).toBeLessThan(100 + 150);
  expect(Math.max(...tookMs)).toBeLessThan(20_000);
}

describeOnRedis("a start", () => {
  const refusal = async (url: string) => {
    const thrown: unknown = await open(url).catch((caught: unknown) => caught);
    expect(thrown).toBeInstanceOf(StartRefused);
    expect(inspect(thrown)).not.toMatch(/QqZz77|redis:\/\//);
    return String(thrown);
  };

  test("is refused in words where nothing answers", async () => {
    const port = await freePort();
    expect(await refusal(`redis://:QqZz77@127.0.0.1:${port}`)).toMatch(/ECONNREFUSED.*that Redis runs/);
    const server = await start();
    server.freeze();
    expect(await refusal(server.url)).toMatch(/silent for 1000 ms/);
  });

  test.each([
    ["of a wrong password", [], "QqZz77", /user or password/],
    ["of a missing password", ["--requirepass", "secret"], "", /user or password/],
    ["of another password", ["--requirepass", "secret"], "QqZz77", /user or password/],
    ["of a Redis Cluster", ["--cluster-enabled", "yes"], "", /Redis Cluster/],
    ["evictions would empty logs", ["--maxmemory-policy", "allkeys-lru"], "", /maxmemory-policy allkeys-lru/],
    ["a replica can't count", ["--replicaof", "127.0.0.1 1"], "", /read-only replica/],
    ["there is no memory", ["--maxmemory", "1"], "", /out of memory/],
  ])("is refused in words because %s", async (_, options, password, words) => {
    const { port } = await start(options);
    expect(await refusal(`redis://${password && `:${password}@`}127.0.0.1:${port}`)).toMatch(words);
  });

  test("waits for a Redis that starts a moment later", async () => {
    const port = await freePort();
    const opening = open(`redis://127.0.0.1:${port}`, { startMsMax: 10_000 });
    await start([], port);
    const { limiter } = await opening;
    expect(limiter.mode()).toBe("shared");
  });

  test("takes a user and a password", async () => {
    const server = await start(["--requirepass", "p/w@1"]);
    const { limiter } = await open(
      `redis://default:${encodeURIComponent("p/w@1")}@127.0.0.1:${server.port}/3`,
    );
    expect(await limiter.spend("team", 2, 1)).toMatchObject({ accepted: true, remaining: 1 });
  });
});

describeOnRedis("with an exact limit of several instances", () => {
  test("of 10,000 requests at once over three instances exactly N pass, and all numbers are the team's", () =>
    unlessSwitched(async () => {
      const server = await start();
      const members = await Promise.all([1, 2, 3].map(() => open(server.url, { windowMs: 60_000 })));
      const decisions = await Promise.all(
        Array.from({ length: 10_000 }, (_, n) => members[n % 3]!.limiter.spend("team", 3_000, 1)),
      );
      const accepted = decisions.filter((decision) => decision.accepted);
      expect(accepted).toHaveLength(3_000);
      // Each sees another number of the one log.
      expect(new Set(accepted.map(({ remaining }) => remaining)).size).toBe(3_000);
      const resets = decisions.map(({ resetUnixMs }) => resetUnixMs);
      expect(Math.max(...resets) - Math.min(...resets)).toBeLessThan(5_000);
      for (const { limiter } of members) {
        expect(await limiter.spend("team", 3_000, 0)).toMatchObject({ accepted: true, remaining: 0 });
        expect(limiter.look("team", 3_000)).toMatchObject({ accepted: true, limit: 3_000, remaining: 0 });
        expect(limiter.look("other", 3_000).remaining).toBe(3_000);
      }
    }));

  test("a plan change keeps the log", () =>
    unlessSwitched(async () => {
      const server = await start();
      const [one, other] = [
        await open(server.url, { windowMs: 60_000 }),
        await open(server.url, { windowMs: 60_000 }),
      ];
      await one.limiter.spend("team", 10, 10);
      expect(await other.limiter.spend("team", 3, 1)).toMatchObject({ accepted: false, remaining: 0 });
      expect(await other.limiter.spend("team", 12, 1)).toMatchObject({ accepted: true, remaining: 1 });
    }));

  test("a client that waits as long as it was told gets through, and one that comes 20 ms early does not", () =>
    unlessSwitched(async () => {
      const server = await start();
      const { limiter } = await open(server.url);
      for (let n = 0; n < 5; n++) {
        await limiter.spend("team", 5, 1);
        await pause(10);
      }
      for (let n = 0; n < 10; n++) {
        const sentMs = performance.now();
        const refused = await limiter.spend("team", 5, 1);
        const toldMs = performance.now();
        if (refused.accepted) continue;
        expect(refused.retryAfterMs).toBeLessThanOrEqual(windowMs);
        const waitMs = Math.ceil(refused.retryAfterMs);
        await pause(Math.max(0, waitMs - 20));
        if (performance.now() < sentMs + waitMs - 5) {
          const { accepted } = await limiter.spend("team", 5, 1);
          // On a busy machine it may come to the server when the time is over.
          if (performance.now() < sentMs + waitMs) expect(accepted).toBe(false);
          if (accepted) continue;
        }
        while (performance.now() < toldMs + waitMs) await pause(1);
        expect((await limiter.spend("team", 5, 1)).accepted).toBe(true);
      }
    }));

  test("scripts that someone flushed are loaded again without a request noticing", () =>
    unlessSwitched(async () => {
      const server = await start();
      const admin = await administer(server);
      const { limiter, modes } = await open(server.url, { windowMs: 60_000 });
      await limiter.spend("team", 9, 1);
      await admin.scriptFlush();
      expect(await limiter.spend("team", 9, 1)).toMatchObject({ accepted: true, remaining: 7 });
      expect(modes).toEqual([]);
    }));

  test("after `close` everything is refused with UNAVAILABLE, also what waits", async () => {
    const server = await start();
    const { limiter } = await open(server.url);
    const waits = limiter.spend("team", 9, 1);
    limiter.close();
    await expect(waits).rejects.toMatchObject({ reason: "UNAVAILABLE" });
    expect(() => limiter.spend("team", 9, 1)).toThrow(expect.objectContaining({ reason: "UNAVAILABLE" }));
  });
});
