import { createClient } from "redis";
import { afterEach, expect, test } from "vitest";
import { systemClock } from "#src/clock.ts";
import type { KeyLimit } from "#src/limit/key-limit.ts";
import { createLimiter, type LimitDecision } from "#src/limit/limiter.ts";
import { readWindow, writeWindow } from "#src/limit/saved-window.ts";
import { createCarriedWindow } from "#src/limit/shared/carried-window.ts";
import { createOwnShare } from "#src/limit/shared/own-share.ts";
import { createSharedLimiter } from "#src/limit/shared/shared-limiter.ts";
import type { LimitMode } from "#src/metrics/metrics.ts";
import { fleetOfRedis } from "../../harness/fleet-of-redis.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { describeOnRedis, startRedis } from "../../harness/redis-server.ts";
import { soon } from "../../harness/soon.ts";

const windowMs = 60_000;
const key = (limit: number, firstKeyId = "k"): KeyLimit => ({ firstKeyId, limit });

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start() {
  const server = await startRedis();
  closers.push(() => {
    server.thaw();
    return server.kill();
  });
  const client = createClient({ url: server.url, RESP: 2, socket: { reconnectStrategy: false } });
  client.on("error", () => {});
  await client.connect();
  closers.push(() => client.destroy());
  return { server, client };
}

async function open(redisUrl: string, place = 0, of = 1, modes: LimitMode[] = []) {
  const limiter = await createSharedLimiter({
    ...{ redisUrl, fleet: fleetOfRedis(), fallback: "share", clock: systemClock, windowMs, startMsMax: 0 },
    standing: () => ({ place, of }),
    events: { modeChanged: ({ mode }) => modes.push(mode) },
  });
  closers.push(limiter.close);
  return limiter;
}

const accepted = (decisions: readonly LimitDecision[]) => decisions.filter((one) => one.accepted).length;

describeOnRedis("limits of keys that several instances share", () => {
  test.each([
    { team: 900, own: 250 },
    { team: 250, own: 900 },
    { team: 400, own: 400 },
  ])(
    "of 10,000 parallel requests exactly as many pass as the lower limit has: team $team, key $own",
    async ({ team, own }) => {
      const { server } = await start();
      const limiters = await Promise.all([0, 1, 2, 3].map((place) => open(server.url, place, 4)));
      const spends = Array.from({ length: 10_000 }, (_, n) =>
        limiters[n % 4]!.spend("demo", team, 1, key(own)),
      );
      const decisions = await Promise.all(spends);
      const least = Math.min(team, own);
      expect(accepted(decisions)).toBe(least);
      const after = await limiters[0]!.spend("demo", team, 0, key(own));
      expect([after.remaining, after.key?.remaining]).toEqual([team - least, own - least]);
    },
  );

  test("of parallel requests of several keys of a team, each gets at most its own limit, and all together the team's", async () => {
    const { server } = await start();
    const modes: LimitMode[] = [];
    const limiters = await Promise.all([0, 1].map((place) => open(server.url, place, 2, modes)));
    const keys = [key(40, "a"), key(70, "b"), undefined];
    const spendAll = (teamId: string) =>
      Promise.all(
        Array.from({ length: 9_000 }, async (_, n) => {
          const own = keys[n % 3];
          return { own, decision: await limiters[n % 2]!.spend(teamId, 200, 1, own) };
        }),
      );
    let decisions: Awaited<ReturnType<typeof spendAll>> = [];
    // Where a busy machine silenced Redis for a moment, an instance took its share instead. That is
    // not what this test is about, so another team spends.
    for (let tries = 0; tries < 4; tries++) {
      await soon(() => limiters.map((limiter) => limiter.mode())).toEqual(["shared", "shared"]);
      modes.length = 0;
      decisions = await spendAll(`demo-${tries}`);
      if (modes.length === 0) break;
    }
    const of = (own: KeyLimit | undefined) =>
      accepted(decisions.filter((one) => one.own === own).map(({ decision }) => decision));
    expect(of(keys[0])).toBeLessThanOrEqual(40);
    expect(of(keys[1])).toBeLessThanOrEqual(70);
    expect(of(keys[0]) + of(keys[1]) + of(undefined)).toBe(200);
  });

  test("both logs of a key lie under the tag of its team, expire, and are as long as what was spent", async () => {
    const { server, client } = await start();
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
    expect(limiter.look("demo", 60, key(5))).toMatchObject({ remaining: 56, key: { remaining: 2 } });
  });

  test("while Redis does not answer, an instance takes its share of both limits, and what it took before counts", async () => {
    const { server } = await start();
    const limiter = await open(server.url, 0, 2);
    await limiter.spend("demo", 60, 3, key(10));
    server.freeze();
    const apart: LimitDecision[] = [];
    await soon(async () => {
      apart.push(await limiter.spend("demo", 60, 1, key(10)));
      return limiter.mode();
    }).toBe("share");
    for (let n = 0; n < 5; n++) apart.push(await limiter.spend("demo", 60, 1, key(10)));
    expect(accepted(apart)).toBe(2);
    expect(apart.at(-1)).toMatchObject({
      ...{ accepted: false, limit: 60, remaining: 25 },
      key: { accepted: false, limit: 10, remaining: 0 },
    });
  });

  test("between Redis and a process alone, and back, the log of a key is kept with that of its team", async () => {
    const { server, client } = await start();
    const limiter = await open(server.url);
    await limiter.spend("demo", 60, 4, key(5));
    await limiter.spend("plain", 60, 2);
    const carried = createCarriedWindow({
      fleetId: "fleet",
      redisUrl: server.url,
      clock: systemClock,
      windowMs,
    });
    const { pages, leftOut } = writeWindow(await carried.save());
    expect(leftOut).toBe(0);
    const alone = createLimiter({ clock: systemClock, windowMs, logsMax: 10 });
    alone.restore(readWindow(pages));
    expect(alone.size()).toBe(3);
    expect(alone.spend("demo", 60, 2, key(5))).toMatchObject({
      ...{ accepted: false, remaining: 56 },
      key: { remaining: 1 },
    });
    alone.spend("demo", 60, 1, key(5));
    await client.flushAll();
    await carried.restore(readWindow(writeWindow(alone.save()).pages));
    const back = await limiter.spend("demo", 60, 1, key(5));
    expect(back).toMatchObject({ accepted: false, remaining: 55, key: { remaining: 0 } });
  });
});

test("a share holds room in both limits or in neither, and says of each how long it refuses", () => {
  const clock = createManualClock();
  const own = createLimiter({ clock, windowMs, logsMax: 10 });
  const share = createOwnShare({ own, standing: () => ({ place: 0, of: 2 }), windowMs });
  const own4 = key(8);
  share.record("demo", 3, own4);
  clock.advance(1_000);
  expect(share.hold("demo", 60, 1, own4)).toBeUndefined();
  // What is under way has the rest of the key's share.
  expect(share.hold("demo", 60, 1, own4)).toMatchObject({
    ...{ accepted: false, limit: 60, remaining: 26, retryAfterMs: 0 },
    key: { accepted: false, limit: 8, remaining: 0, retryAfterMs: windowMs },
  });
  expect(share.hold("demo", 60, 2, own4)).toMatchObject({
    ...{ retryAfterMs: 0, key: { remaining: 0, retryAfterMs: windowMs - 1_000 } },
  });
  share.release("demo", 1, own4);
  expect(share.spend("demo", 60, 1, own4)).toMatchObject({ accepted: true, key: { remaining: 0 } });
  expect(share.look("demo", 60, own4)).toMatchObject({ remaining: 26, limit: 60, key: { limit: 8 } });
  const unavailable = expect.objectContaining({ reason: "UNAVAILABLE" });
  expect(() => share.spend("demo", 60, 5, own4)).toThrow(unavailable);
});
