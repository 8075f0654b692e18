import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { reachRedis } from "#src/limit/redis/open-limiter.ts";
import { RedisTrouble } from "#src/limit/redis/redis-trouble.ts";
import { createSharedLimiter, type SharedLimiterParts } from "#src/limit/redis/shared-limiter.ts";
import type { Answer, Ask, SharedLogs } from "#src/limit/redis/shared-logs.ts";
import { systemLimitTimers } from "#src/limit/timers.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { expectPending } from "../../harness/app-backends.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

const windowMs = 60_000;
const unavailable = expect.objectContaining({ reason: "UNAVAILABLE", retryAfterMs: 1_000 });
const taken: Answer = { taken: 1, count: 1, resetAfterMs: 60_000, retryAfterMs: 0 };

/** A limiter on a clock and a connection of the test, which takes all that it is asked. */
async function open(parts: Partial<SharedLimiterParts> = {}) {
  const clock = createManualClock();
  const asked: Ask[] = [];
  const seen = { asked, opens: [0], closed: 0, happened: [] as string[] };
  const redis = {
    isUp: true,
    answer: async (asks: readonly Ask[]): Promise<readonly Answer[] | undefined> => asks.map(() => taken),
    lost: (_cause: unknown) => {},
    opens: undefined as Promise<void> | undefined,
  };
  const logs: SharedLogs = {
    spend(asks) {
      asked.push(...asks);
      return redis.answer(asks);
    },
    close: () => void seen.closed++,
  };
  const limiter = await createSharedLimiter({
    ...{ clock, timers: { after: clock.after, soon: systemLimitTimers.soon } },
    async open(lost) {
      if (clock.monotonicMs() > 0) seen.opens.push(clock.monotonicMs());
      await redis.opens;
      if (!redis.isUp) throw new RedisTrouble("ECONNREFUSED");
      redis.lost = lost;
      return logs;
    },
    ...{ fallback: "share", sharePlace: () => ({ place: 0, of: 2 }) },
    windowMs,
    events: {
      modeChanged: ({ mode, cause }) => seen.happened.push(`${mode}: ${cause}`),
      returnFailed: (cause) => seen.happened.push(`failed: ${cause}`),
    },
    ...parts,
  });
  /** So many turns of the event loop, of a millisecond each. */
  async function pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed++) clock.advance(1);
    await turn();
    await turn();
  }
  return { limiter, clock, redis, seen, pass };
}

/** It loses its connection, and does not get it back. */
async function openApart(parts: Partial<SharedLimiterParts> = {}) {
  const opened = await open(parts);
  opened.redis.isUp = false;
  opened.redis.lost(new RedisTrouble("ECONNRESET"));
  return opened;
}

const never = new Promise<never>(() => {});

test("each spend is asked with its own limit, cost and key, and has the wait and the reset of the answer", async () => {
  const { limiter, seen, redis, clock } = await open();
  const key = { firstKeyId: "k", limit: 3 };
  const log = { count: 9, resetAfterMs: 700, retryAfterMs: 500 };
  await limiter.spend("team", 10, 10);
  redis.answer = async () => [{ ...log, taken: 0, key: { ...log, count: 2 } }];
  const refused = { accepted: false, resetUnixMs: clock.unixMs() + 700, retryAfterMs: 500 };
  const wanted = { ...refused, limit: 12, remaining: 3, key: { ...refused, limit: 3, remaining: 1 } };
  expect(await limiter.spend("team", 12, 1, key)).toEqual(wanted);
  expect(seen.asked).toMatchObject([
    { teamId: "team", limit: 10, cost: 10 },
    { teamId: "team", limit: 12, cost: 1, key },
  ]);
  expect(limiter.peek("team", 12, key)).toMatchObject({ remaining: 3, key: { remaining: 1 } });
  expect(limiter.peek("other", 12).remaining).toBe(12);
});

test("a call that is silent is given up after 100 ms, and not before; then the share decides of it and the next", async () => {
  const { limiter, redis, seen, pass } = await open();
  expect(await limiter.spend("team", 60, 20)).toMatchObject({ accepted: true });
  redis.answer = () => never;
  const silent = Promise.resolve(limiter.spend("team", 60, 9));
  await turn();
  await pass(99);
  await expectPending(silent);
  expect([limiter.mode(), seen.closed]).toEqual(["shared", 0]);
  await pass(1);
  expect(await silent).toMatchObject({ accepted: true, limit: 60, remaining: 1 });
  expect([limiter.mode(), seen.closed, seen.happened]).toEqual([
    "share",
    1,
    ["share: RedisTrouble: silent for 100 ms"],
  ]);
  expect(await limiter.spend("team", 60, 1)).toMatchObject({ accepted: true, remaining: 0 });
  expect(await limiter.spend("team", 60, 1)).toMatchObject({ accepted: false });
});

test("apart, a key with a limit of its own takes its share of both, and what the shared log took before counts", async () => {
  const { limiter, redis } = await open();
  const key = { firstKeyId: "k", limit: 10 };
  await limiter.spend("team", 60, 3, key);
  redis.lost("gone");
  expect(await limiter.spend("team", 60, 2, key)).toMatchObject({ accepted: true, key: { remaining: 0 } });
  expect(await limiter.spend("team", 60, 1, key)).toMatchObject({
    ...{ accepted: false, limit: 60, remaining: 25 },
    key: { accepted: false, limit: 10, remaining: 0 },
  });
  expect(limiter.peek("team", 60, key)).toMatchObject({ remaining: 25, key: { remaining: 0 } });
});

test("with `refuse` what waited and all that follows is refused with UNAVAILABLE, and spends nothing", async () => {
  const { limiter, redis, seen, pass } = await open({ fallback: "refuse" });
  redis.answer = () => never;
  const silent = expect(limiter.spend("team", 60, 1)).rejects.toEqual(unavailable);
  await turn();
  await pass(100);
  await silent;
  expect(limiter.mode()).toBe("refuse");
  await expect(limiter.spend("team", 60, 1)).rejects.toEqual(unavailable);
  expect(seen.asked).toHaveLength(1);
  redis.answer = async () => [taken];
  await pass(1_000);
  expect(await limiter.spend("team", 60, 1)).toMatchObject({ accepted: true });
});

test("one attempt a second is made to come back, and each change is told once", async () => {
  const { limiter, redis, seen, pass } = await openApart();
  await pass(999);
  expect(seen.opens).toEqual([0]);
  await pass(1);
  for (let second = 0; second < 3; second++) await pass(1_000);
  redis.isUp = true;
  await pass(1_000);
  expect(seen.opens).toEqual([0, 1_000, 2_000, 3_000, 4_000, 5_000]);
  expect(limiter.mode()).toBe("shared");
  expect(seen.happened).toEqual([
    "share: RedisTrouble: ECONNRESET",
    ...Array<string>(4).fill("failed: RedisTrouble: ECONNREFUSED"),
    "shared: RedisTrouble: ECONNREFUSED",
  ]);
});

test("for one window after it came back, a request needs room in the share and in the shared log, and then in that alone", async () => {
  const { limiter, redis, seen, clock, pass } = await openApart();
  await pass(999);
  expect(await limiter.spend("team", 60, 20)).toMatchObject({ accepted: true });
  redis.isUp = true;
  await pass(1);
  expect([limiter.mode(), limiter.isAllShared()]).toEqual(["shared", false]);
  for (let n = 0; n < 2; n++) expect(await limiter.spend("team", 60, 5)).toMatchObject({ accepted: true });
  expect(await limiter.spend("team", 60, 1)).toMatchObject({ accepted: false, remaining: 0 });
  expect(seen.asked).toHaveLength(2);
  clock.advance(windowMs - 2);
  expect(limiter.isAllShared()).toBe(false);
  clock.advance(1);
  expect(limiter.isAllShared()).toBe(true);
  expect(await limiter.spend("team", 60, 20)).toMatchObject({ accepted: true });
  expect(await limiter.spend("team", 60, 1)).toMatchObject({ accepted: false });
  clock.advance(1);
  expect(await limiter.spend("team", 60, 1)).toMatchObject({ accepted: true });
  expect(seen.asked).toHaveLength(4);
});

test("a call that came too late to be counted is repeated 16 times, and then the connection is of no more use", async () => {
  const { limiter, redis, seen, pass } = await open();
  let late = 3;
  redis.answer = async () => (late-- > 0 ? undefined : [taken]);
  expect(await limiter.spend("team", 60, 1)).toMatchObject({ accepted: true });
  expect([seen.asked.length, limiter.mode()]).toEqual([4, "shared"]);
  late = 100;
  expect(await limiter.spend("team", 60, 1)).toMatchObject({ accepted: true });
  expect([seen.asked.length, limiter.mode()]).toEqual([21, "share"]);
  expect(seen.happened).toEqual(["share: RedisTrouble: too late"]);
  await pass(0);
});

test("after `close` everything is refused with UNAVAILABLE, also what waits, and no connection is opened or kept", async () => {
  const { limiter, redis, seen, pass } = await open();
  redis.answer = () => never;
  const waits = expect(limiter.spend("team", 60, 1)).rejects.toEqual(unavailable);
  await turn();
  limiter.close();
  await waits;
  await expect(limiter.spend("team", 60, 1)).rejects.toEqual(unavailable);
  await pass(5_000);
  expect([seen.opens, seen.closed]).toEqual([[0], 1]);
  const apart = await openApart();
  apart.limiter.close();
  await apart.pass(5_000);
  expect(apart.seen.opens).toEqual([0]);
  const slow = await openApart();
  const opens = Promise.withResolvers<void>();
  Object.assign(slow.redis, { isUp: true, opens: opens.promise });
  await slow.pass(1_000);
  slow.limiter.close();
  opens.resolve();
  await turn();
  expect([slow.seen.opens, slow.seen.closed]).toEqual([[0, 1_000], 2]);
});

test.each([
  ["ECONNREFUSED", 3_000, 4],
  ["ECONNREFUSED", 0, 1],
  ["WRONGPASS", 3_000, 1],
])("a start that meets %s tries once a second for %i ms, %i times in all", async (words, msMax, tries) => {
  const clock = createManualClock();
  let tried = 0;
  const attempt = () => {
    tried += 1;
    return Promise.reject(new RedisTrouble(words));
  };
  const timers = { after: clock.after, soon: systemLimitTimers.soon };
  const starting = reachRedis(attempt, { clock, timers, msMax }).catch((thrown: unknown) => thrown);
  for (let second = 0; second < 5; second++) {
    await turn();
    expect(tried).toBe(Math.min(tries, second + 1));
    clock.advance(1_000);
  }
  expect(await starting).toBeInstanceOf(StartRefused);
});
