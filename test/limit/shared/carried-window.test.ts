import { createClient } from "redis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import { createLimiter } from "#src/limit/limiter.ts";
import { readWindow, type SavedWindow, writeWindow } from "#src/limit/saved-window.ts";
import { createCarriedWindow } from "#src/limit/shared/carried-window.ts";
import { figure } from "../../harness/campaigns.ts";
import { freePort } from "../../harness/free-port.ts";
import { describeOnRedis, type RedisServer, startRedis } from "../../harness/redis-server.ts";
import { seededRandom } from "../../harness/seeded-random.ts";

const windowMs = 60_000;
const ticksPerMs = 1_024;

describeOnRedis("the counted requests", () => {
  let server: RedisServer;
  let client: ReturnType<typeof createClient>;

  beforeAll(async () => {
    server = await startRedis();
    client = createClient({ url: server.url, RESP: 2 });
    await client.connect();
  });
  afterAll(async () => {
    client.destroy();
    await server.kill();
  });

  const carried = (redisUrl = server.url) =>
    createCarriedWindow({ redisUrl, fleetId: "fleet", clock: systemClock, windowMs });
  const byTeam = ({ logs }: SavedWindow) => new Map([...logs].map(({ id, moments }) => [id, moments]));

  test("go to Redis and back without one that is lost, or older than it is", async () => {
    await client.flushAll();
    const random = seededRandom(13);
    const logs = Array.from({ length: 300 }, (_, team) => {
      const moments: number[] = [];
      let age = 40_000 * ticksPerMs;
      for (let n = 0; n < 1 + random() * 60 && age > 0; n++) {
        moments.push(age, random() < 0.01 ? 2_500 : 1 + Math.floor(random() * 20));
        age -= 1 + Math.floor(random() * 900_000);
      }
      return { id: `team-${team}`, moments };
    });
    const savedUnixMs = Date.now();
    await carried().restore({ savedUnixMs, logs });
    const back = await carried().save();
    const trueLaterMs = Date.now() + 1 - savedUnixMs;
    const found = byTeam(back);
    for (const { id, moments } of logs) {
      const after = found.get(id) ?? [];
      expect(after).toHaveLength(moments.length);
      for (let n = 2; n <= after.length; n += 2) {
        const [ageBefore = 0, countBefore] = moments.slice(moments.length - n);
        const [age = 0, count] = after.slice(after.length - n);
        expect(count).toBe(countBefore);
        expect(age).toBeGreaterThanOrEqual(ageBefore - 2 * ticksPerMs);
        expect(age).toBeLessThanOrEqual(ageBefore + trueLaterMs * ticksPerMs);
      }
    }
    // They are in the form that a store keeps and a lone process takes up.
    const { pages, leftOut } = writeWindow(back);
    expect(leftOut).toBe(0);
    const limiter = createLimiter({ clock: systemClock, windowMs, logsMax: 1_000 });
    limiter.restore(readWindow(pages));
    expect(limiter.size()).toBe(logs.length);
  });

  const countsOf = async () =>
    Object.fromEntries(
      [...byTeam(await carried().save())].map(([id, moments]) => [
        id,
        moments.filter((_, n) => n % 2 === 1).reduce((sum, count) => sum + count, 0),
      ]),
    );

  test("a team whose requests are all over gets no log", async () => {
    await client.flushAll();
    const savedUnixMs = Date.now();
    const logs = [{ id: "new", moments: [1_024, 2] }];
    await carried().restore({ savedUnixMs, logs });
    const gone = [{ id: "gone", moments: [1_024, 3] }];
    await carried().restore({ savedUnixMs: savedUnixMs - windowMs, logs: gone });
    expect(await countsOf()).toEqual({ new: 2 });
    expect(await client.exists("keyrun:fleet:{gone}:log")).toBe(0);
    expect(await client.pTTL("keyrun:fleet:{new}:log")).toBeGreaterThan(windowMs - 5_000);
  });

  test("what one alone counted since is added to an old log in Redis, once, and a later log keeps all", async () => {
    await client.flushAll();
    const random = seededRandom(5);
    const ticks = (ms: number) => ms * ticksPerMs;
    for (let round = 0; round < 40; round++) {
      const id = `team-${round}`;
      const old = { id, moments: [ticks(20_000), 1 + Math.floor(random() * 3_000)] };
      const since = [ticks(2_000), 1 + Math.floor(random() * 3_000)];
      const later = 1 + Math.floor(random() * 5);
      const total = (old.moments[1] ?? 0) + (since[1] ?? 0);
      const savedUnixMs = Date.now();
      await carried().restore({ savedUnixMs, logs: [old] });
      const alone = { savedUnixMs, logs: [{ id, moments: [...old.moments, ...since] }] };
      await carried().restore(alone);
      expect((await countsOf())[id]).toBe(total);
      // An instance that started with it spends before another takes up the same.
      const [seconds, microseconds] = await client.sendCommand<[string, string]>(["TIME"]);
      const now = `${seconds}${microseconds.padStart(6, "0")}`;
      await client.rPush(
        `keyrun:fleet:{${id}}:log`,
        Array.from({ length: later }, () => now),
      );
      await carried().restore(alone);
      expect((await countsOf())[id]).toBe(total + later);
      const times = (await client.lRange(`keyrun:fleet:{${id}}:log`, 0, -1)).map(Number);
      expect(times).toEqual(times.toSorted((one, other) => one - other));
      expect(times.at(-1)).toBe(Number(now));
    }
  });

  test("what a fleet saved never changes a log in Redis, which has it and more", async () => {
    await client.flushAll();
    const savedUnixMs = Date.now();
    await carried().restore({ savedUnixMs, logs: [{ id: "here", moments: [1_024, 3] }] });
    const before = await client.lRange("keyrun:fleet:{here}:log", 0, -1);
    // By a clock that is ahead.
    const stale = { id: "here", moments: [0, 3] };
    const saved = { savedUnixMs: savedUnixMs + 5_000, isShared: true };
    await carried().restore({ ...saved, logs: [stale, { id: "lost", moments: [1_024, 2] }] });
    expect(await client.lRange("keyrun:fleet:{here}:log", 0, -1)).toEqual(before);
    expect(await countsOf()).toEqual({ here: 3, lost: 2 });
    expect((await carried().save()).isShared).toBe(true);
  });

  test("a Redis that is frozen holds up a stop for 2 s, not for 10", async () => {
    const frozen = await startRedis();
    frozen.freeze();
    await expect(carried(frozen.url).save()).rejects.toThrow("silent for 2000 ms");
    await frozen.kill();
  });

  test("a log takes at most 16 bytes for each request, and 256 for the team", async () => {
    await client.flushAll();
    const random = seededRandom(7);
    const teams = 200;
    const requests = 600;
    const logs = Array.from({ length: teams }, (_, team) => {
      const ages = Array.from({ length: requests }, () => Math.floor(random() * 50_000 * ticksPerMs));
      const moments = [...new Set(ages)].sort((one, other) => other - one).flatMap((age) => [age, 1]);
      return { id: `a-team-with-a-long-name-${team}`, moments };
    });
    const before = Number(/used_memory:(\d+)/.exec(await client.info("memory"))?.[1]);
    await carried().restore({ savedUnixMs: Date.now(), logs });
    const after = Number(/used_memory:(\d+)/.exec(await client.info("memory"))?.[1]);
    const counted = logs.reduce((sum, { moments }) => sum + moments.length / 2, 0);
    const bytes = (after - before) / teams;
    const each = (after - before - teams * 256) / counted;
    figure(`${requests} requests`, each, "bytes a request");
    figure(`${requests} requests: 10,000 teams`, (bytes * 10_000) / 1e6, "MB");
    expect(each).toBeLessThanOrEqual(16);
  });

  test("a Redis that is not there rejects without its address", async () => {
    const redisUrl = `redis://:hidden@127.0.0.1:${await freePort()}`;
    await expect(carried(redisUrl).save()).rejects.toThrow("ECONNREFUSED");
  });
});
