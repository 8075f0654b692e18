import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import { bounds } from "#src/bounds.ts";
import { openSharedLimiter } from "#src/limit/redis/open-limiter.ts";
import { type LimitTimers, systemLimitTimers } from "#src/limit/timers.ts";
import type { LimitMode } from "#src/metrics/metrics.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { fleetOfRedis } from "../../harness/fleet-of-redis.ts";
import { clientOfTest, describeOnRedis, type RedisServer, redisOfTest } from "../../harness/redis-server.ts";
import { openTcpProxy } from "../../harness/tcp-proxy.ts";

const windowMs = 60_000;
const limit = 60;

/** The looks at the mark are more frequent. */
const timers: LimitTimers = {
  ...systemLimitTimers,
  after: (ms, run) => systemLimitTimers.after(ms === bounds.fleetMarkCheckMs ? 50 : ms, run),
};

let marks = 0;

/** Instances of one fleet; each knows the marks of the others as the fleet's store shows them. */
function openFleet(id: string) {
  const held: (string | undefined)[] = [];
  return async (redisUrl: string) => {
    const place = held.push(undefined) - 1;
    let isJoined = false;
    const seen = { modes: [] as LimitMode[], troubles: [] as string[], mark: () => held[place] };
    const fleet = fleetOfRedis({
      id,
      newMark: () => `mark-${++marks}`,
      // A start compares later, as it joins.
      marksOf: (others) =>
        held.flatMap((mark, at) => {
          const isOther = others === "all" ? at !== place : at < place;
          return isJoined && isOther && mark !== undefined ? [mark] : [];
        }),
      onMark: (mark) => {
        held[place] = mark;
      },
    });
    const say = (cause: unknown) => seen.troubles.push(String(cause));
    const limiter = await openSharedLimiter({
      ...{ redisUrl, fleet, fallback: "refuse", clock: systemClock, timers, windowMs },
      startMsMax: 200_000,
      sharePlace: () => undefined,
      events: {
        modeChanged({ mode, cause }) {
          seen.modes.push(mode);
          if (cause !== undefined) say(cause);
        },
        returnFailed: say,
      },
    });
    onTestFinished(limiter.close);
    isJoined = true;
    return { ...seen, limiter };
  };
}

/** A way to a Redis that may lead to another one later. */
async function openWay({ port }: RedisServer) {
  const target = { host: "127.0.0.1", port };
  const proxy = await openTcpProxy(target);
  onTestFinished(proxy.close);
  return {
    url: `redis://127.0.0.1:${proxy.port}`,
    lead(to: RedisServer) {
      target.port = to.port;
      proxy.mend();
    },
  };
}

describeOnRedis("the Redis of a fleet", () => {
  test("is refused to another fleet in words, with the ids of both, and is free when the first has left", async () => {
    const server = await redisOfTest();
    const client = await clientOfTest(server);
    await openFleet("aaaa")(server.url);
    const refused: unknown = await openFleet("bbbb")(server.url).catch((thrown: unknown) => thrown);
    expect(refused).toBeInstanceOf(StartRefused);
    expect(String(refused)).toMatch(/another fleet, of id aaaa, and this one has id bbbb/);
    const leftMs = await client.pTTL("keyrun:fleet");
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThanOrEqual(60_000);
  });

  test("counts two fleets with equal ids of teams apart, even if both got in", async () => {
    const server = await redisOfTest();
    const client = await clientOfTest(server);
    const one = await openFleet("aaaa")(server.url);
    await client.del("keyrun:fleet");
    const other = await openFleet("bbbb")(server.url);
    expect(await one.limiter.spend("team", limit, limit)).toMatchObject({ accepted: true, remaining: 0 });
    expect(await other.limiter.spend("team", limit, limit)).toMatchObject({ accepted: true, remaining: 0 });
  });

  test("is not changed for that of another fleet while an instance runs: it is tried again, and taken when it is right", async () => {
    const [own, foreign] = [await redisOfTest(), await redisOfTest()];
    await openFleet("bbbb")(foreign.url);
    const way = await openWay(own);
    const one = await openFleet("aaaa")(way.url);
    way.lead(foreign);
    await expect
      .poll(() => one.troubles.at(-1))
      .toMatch(/another fleet, of id bbbb, and this one has id aaaa/);
    expect(one.limiter.mode()).toBe("refuse");
    await expect(one.limiter.spend("team", limit, 1)).rejects.toThrow();
    way.lead(own);
    await expect.poll(() => one.modes).toEqual(["refuse", "shared"]);
  });

  test("is not changed for an empty one while another instance counts in it, but when none does", async () => {
    const [own, empty] = [await redisOfTest(), await redisOfTest()];
    const openOne = openFleet("aaaa");
    const ways = [await openWay(own), await openWay(own)] as const;
    const [first, second] = [await openOne(ways[0].url), await openOne(ways[1].url)];
    expect(second.mark()).toBe(first.mark());
    ways[0].lead(empty);
    await expect
      .poll(() => first.troubles.at(-1))
      .toMatch(/another Redis than the one in which the other instances/);
    expect(first.limiter.mode()).toBe("refuse");
    expect(second.limiter.mode()).toBe("shared");
    ways[1].lead(empty);
    await expect.poll(() => [first.limiter.mode(), second.limiter.mode()]).toEqual(["shared", "shared"]);
    expect(second.mark()).toBe(first.mark());
    const spends = [first, second].map(({ limiter }) => limiter.spend("team", limit, limit));
    expect((await Promise.all(spends)).filter(({ accepted }) => accepted)).toHaveLength(1);
  });

  test("gets its mark again when it came back empty, or was emptied", async () => {
    const server = await redisOfTest();
    const openOne = openFleet("aaaa");
    const [first, second] = [await openOne(server.url), await openOne(server.url)];
    const client = await clientOfTest(server);
    const [before] = await client.lRange("keyrun:fleet", 0, -1);
    await client.flushAll();
    await expect.poll(() => client.lRange("keyrun:fleet", 0, -1)).toEqual([before]);
    expect([first.modes, second.modes]).toEqual([[], []]);
    await server.kill();
    await expect.poll(() => [first.modes, second.modes]).toEqual([["refuse"], ["refuse"]]);
    const back = await clientOfTest(await redisOfTest([], server.port));
    await expect.poll(() => [first.limiter.mode(), second.limiter.mode()]).toEqual(["shared", "shared"]);
    expect(await back.lRange("keyrun:fleet", 0, -1)).toEqual([`aaaa ${first.mark()}`]);
    expect(second.mark()).toBe(first.mark());
  });

  test("is one: of two instances that came to count in two, the later one yields", async () => {
    const [own, other] = [await redisOfTest(), await redisOfTest()];
    const openOne = openFleet("aaaa");
    const first = await openOne(own.url);
    const second = await openOne(other.url);
    await expect
      .poll(() => second.troubles.at(-1))
      .toMatch(/another Redis than the one in which the other instances/);
    expect(second.limiter.mode()).toBe("refuse");
    expect(first.modes).toEqual([]);
  });
});
