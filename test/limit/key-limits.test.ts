import { expect, test } from "vitest";
import { type KeyLimit, type LimitDecision, stricterLimit } from "#src/limit/limit-decision.ts";
import { createLimiter } from "#src/limit/limiter.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { createRandom } from "../harness/seeded-random.ts";
import { createNaiveLog, spendBothNaively } from "./naive-log.ts";

const windowMs = 60_000;
const key = (limit: number, firstKeyId = "k"): KeyLimit => ({ firstKeyId, limit });

function createTestLimiter(options: { logsMax?: number; keyLogsMax?: number } = {}) {
  const clock = createManualClock();
  return { clock, limiter: createLimiter({ clock, windowMs, logsMax: 1_000, ...options }) };
}

test("a million commands of keys with and without a limit of their own get the same decision, remaining, reset and wait as naive logs", () => {
  const { next: random, pick } = createRandom(2_718);
  const limits = [1, 2, 3, 5, 8, 13, 20];
  const seen = { taken: 0, byTeam: 0, byKey: 0, byBoth: 0, plain: 0, edges: 0, changes: 0, backSteps: 0 };
  for (let run = 0; run < 100; run++) {
    const { clock, limiter } = createTestLimiter();
    const team = createNaiveLog(windowMs);
    const keys = ["a", "b"].map((firstKeyId) => ({ firstKeyId, limit: 5, log: createNaiveLog(windowMs) }));
    let [limit, nowMs] = [8, 0];
    let waits = [0, 0];
    for (let command = 0; command < 10_000; command++) {
      const kind = random();
      if (kind < 0.04) {
        if (kind < 0.02) limit = pick(limits);
        else pick(keys).limit = pick(limits);
        seen.changes++;
      } else if (kind < 0.05) {
        clock.setMonotonic(clock.monotonicMs() - random() * 50_000);
        seen.backSteps++;
      } else if (kind < 0.2) {
        clock.advance(Math.max(0, pick(waits) + pick([-1 / 1024, 0, 1 / 1024])));
        seen.edges++;
      } else if (kind < 0.21) clock.advance(random() * 200_000);
      else if (kind < 0.8) clock.advance(random() * 5_000);
      const one = random() < 0.2 ? undefined : pick(keys);
      // One time for all logs: a clock that steps back stands still for each.
      nowMs = Math.max(nowMs, clock.monotonicMs());
      const costMax = Math.min(limit, one?.limit ?? limit);
      const cost = random() < 0.7 ? 1 : Math.floor(random() * (costMax + 1));
      if (one === undefined) {
        const wanted = team.spend(nowMs, limit, cost);
        expectState(limiter.spend("team", limit, cost), clock.unixMs(), wanted);
        waits = [wanted.waitMs, wanted.resetAfterMs];
        seen.plain++;
        continue;
      }
      const wanted = spendBothNaively({ team, key: one.log }, nowMs, { limit, keyLimit: one.limit, cost });
      const got = limiter.spend("team", limit, cost, key(one.limit, one.firstKeyId));
      if (got.accepted !== wanted.accepted) expect({ run, command, got }).toEqual({ run, command, wanted });
      expectState(got, clock.unixMs(), wanted.team);
      expectState(got.key, clock.unixMs(), wanted.key);
      waits = [wanted.team.waitMs, wanted.key.waitMs, wanted.team.resetAfterMs, wanted.key.resetAfterMs];
      if (wanted.accepted) seen.taken++;
      else if (wanted.team.waitMs > 0 && wanted.key.waitMs > 0) seen.byBoth++;
      else if (wanted.key.waitMs > 0) seen.byKey++;
      else seen.byTeam++;
    }
  }
  // The commands did reach the cases that they are for.
  for (const [name, times] of Object.entries(seen)) expect(times, name).toBeGreaterThan(5_000);
});

function expectState(
  got: LimitDecision | undefined,
  nowUnixMs: number,
  wanted: { waitMs: number; remaining: number; resetAfterMs: number },
): void {
  const same =
    got?.retryAfterMs === wanted.waitMs &&
    got.remaining === wanted.remaining &&
    got.resetUnixMs === nowUnixMs + wanted.resetAfterMs;
  if (!same) expect({ got, nowUnixMs }).toEqual({ wanted });
}

test("where the key's limit refuses nothing is taken from the team's, and the reverse", () => {
  const { limiter } = createTestLimiter();
  expect(limiter.spend("demo", 3, 1, key(1))).toMatchObject({
    ...{ accepted: true, limit: 3, remaining: 2 },
    key: { accepted: true, limit: 1, remaining: 0 },
  });
  expect(limiter.spend("demo", 3, 1, key(1))).toMatchObject({
    ...{ accepted: false, remaining: 2, retryAfterMs: 0 },
    key: { accepted: false, remaining: 0, retryAfterMs: windowMs },
  });
  limiter.spend("demo", 3, 2);
  expect(limiter.spend("demo", 3, 1, key(2, "other"))).toMatchObject({
    ...{ accepted: false, remaining: 0, retryAfterMs: windowMs },
    key: { accepted: false, remaining: 2, retryAfterMs: 0 },
  });
  expect(limiter.peek("demo", 3, key(2, "other")).key).toMatchObject({ remaining: 2 });
});

test("keys of one id in two teams are two keys", () => {
  const { limiter } = createTestLimiter();
  limiter.spend("one", 5, 1, key(1));
  expect(limiter.spend("other", 5, 1, key(1)).accepted).toBe(true);
});

test("a limit of a key above its team's changes nothing: the team's decides", () => {
  const { limiter } = createTestLimiter();
  limiter.spend("demo", 2, 2, key(60));
  expect(limiter.spend("demo", 2, 1, key(60))).toMatchObject({
    ...{ accepted: false, retryAfterMs: windowMs },
    key: { remaining: 58, retryAfterMs: 0 },
  });
});

test("a key without a limit of its own has no log, and the logs of keys have a bound of their own", () => {
  const { clock, limiter } = createTestLimiter({ logsMax: 3, keyLogsMax: 2 });
  limiter.spend("demo", 9);
  expect(limiter.size()).toBe(1);
  limiter.spend("demo", 9, 1, key(9, "a"));
  limiter.spend("demo", 9, 1, key(9, "b"));
  expect(limiter.size()).toBe(3);
  const full = expect.objectContaining({ reason: "UNAVAILABLE" });
  expect(() => limiter.spend("demo", 9, 1, key(9, "c"))).toThrow(full);
  expect(() => limiter.spend("new", 9, 1, key(9, "c"))).toThrow(full);
  // Nothing was spent, and no log was made, for those two.
  expect(limiter.peek("demo", 9).remaining).toBe(6);
  expect(limiter.size()).toBe(3);
  expect(limiter.spend("new", 9).accepted).toBe(true);
  clock.advance(windowMs);
  expect(limiter.spend("demo", 9, 1, key(9, "c")).accepted).toBe(true);
});

test("the logs of keys are dropped once they are empty, as requests of other teams come in", () => {
  const { clock, limiter } = createTestLimiter();
  for (let n = 0; n < 40; n++) limiter.spend("demo", 60, 1, key(9, `k${n}`));
  expect(limiter.size()).toBe(41);
  clock.advance(windowMs);
  for (let n = 0; n < 20; n++) limiter.spend("busy", 60);
  expect(limiter.size()).toBe(1);
});

test("a cost above either limit takes nothing", () => {
  const { limiter } = createTestLimiter();
  expect(() => limiter.spend("demo", 5, 2, key(1))).toThrow(RangeError);
  expect(() => limiter.spend("demo", 1, 2, key(5))).toThrow(RangeError);
  expect(limiter.size()).toBe(0);
});

test("the stricter of two limits has fewer left, or frees later where one refuses, and of two alike is the key's", () => {
  const state = { accepted: true, limit: 9, remaining: 4, resetUnixMs: 0, retryAfterMs: 0 };
  const of = (team: Partial<LimitDecision>, own: Partial<LimitDecision>) => {
    const both = { ...state, ...team, key: { ...state, ...team, ...own } };
    return stricterLimit(both) === both ? "team" : "key";
  };
  expect(stricterLimit(state)).toBe(state);
  expect(of({}, {})).toBe("key");
  expect(of({}, { remaining: 3 })).toBe("key");
  expect(of({}, { remaining: 5 })).toBe("team");
  const refused = { accepted: false, retryAfterMs: 10 };
  expect(of(refused, { remaining: 0, retryAfterMs: 9 })).toBe("team");
  expect(of(refused, { remaining: 9, retryAfterMs: 11 })).toBe("key");
  expect(of(refused, { remaining: 9 })).toBe("key");
});
