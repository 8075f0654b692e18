import fc from "fast-check";
import { expect, test } from "vitest";
import { createLimiter } from "#src/limit/limiter.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { createNaiveLog } from "./naive-log.ts";

const windowMs = 60_000;

function createTestLimiter(options: { logsMax?: number; whenFull?: "refuse" | "forget" } = {}) {
  const clock = createManualClock();
  return { clock, limiter: createLimiter({ clock, windowMs, logsMax: 1_000, ...options }) };
}

test("a team's decision says what is left, when the next slot opens and how long to wait", () => {
  const { clock, limiter } = createTestLimiter();
  const startMs = clock.unixMs();
  expect(limiter.spend("a", 2)).toEqual({
    accepted: true,
    limit: 2,
    remaining: 1,
    resetUnixMs: startMs + windowMs,
    retryAfterMs: 0,
  });
  clock.advance(1_000);
  limiter.spend("a", 2);
  clock.advance(500);
  expect(limiter.spend("a", 2)).toEqual({
    accepted: false,
    limit: 2,
    remaining: 0,
    resetUnixMs: startMs + windowMs,
    retryAfterMs: 58_500,
  });
});

test("looking spends nothing, makes no log, and is accepted even where nothing is left", () => {
  const { clock, limiter } = createTestLimiter();
  const unused = { accepted: true, limit: 1, remaining: 1, resetUnixMs: clock.unixMs(), retryAfterMs: 0 };
  expect(limiter.peek("a", 1)).toEqual(unused);
  expect(limiter.spend("a", 1, 0)).toEqual(unused);
  expect(limiter.size()).toBe(0);
  limiter.spend("a", 1);
  expect(limiter.peek("a", 1)).toMatchObject({ accepted: true, remaining: 0, retryAfterMs: 0 });
});

test("looking counts what has left the window since the last request", () => {
  const { clock, limiter } = createTestLimiter();
  limiter.spend("older", 5);
  clock.advance(1);
  limiter.spend("a", 5, 2);
  limiter.spend("b", 5);
  clock.advance(30_000);
  limiter.spend("a", 5);
  clock.advance(30_000);
  expect(limiter.peek("a", 5).remaining).toBe(4);
});

test("after a downgrade nothing is left, never less than nothing", () => {
  const { limiter } = createTestLimiter();
  limiter.spend("a", 10, 10);
  expect(limiter.peek("a", 3).remaining).toBe(0);
});

test("a step of the wall clock moves the shown reset and no decision", () => {
  const { clock, limiter } = createTestLimiter();
  limiter.spend("a", 1);
  clock.stepWall(-3_600_000);
  expect(limiter.spend("a", 1)).toMatchObject({ accepted: false, retryAfterMs: windowMs });
  clock.stepWall(7_200_000);
  expect(limiter.spend("a", 1)).toMatchObject({
    accepted: false,
    resetUnixMs: clock.unixMs() + windowMs,
  });
});

test("a monotonic clock that steps back opens no slot for any team", () => {
  const { clock, limiter } = createTestLimiter();
  clock.advance(200_000);
  limiter.spend("a", 1);
  clock.setMonotonic(0);
  limiter.spend("b", 1);
  expect(limiter.spend("a", 1).accepted).toBe(false);
  clock.setMonotonic(259_999);
  expect(limiter.spend("b", 1).accepted).toBe(false);
  expect(limiter.spend("a", 1).accepted).toBe(false);
});

test("while no log is empty, a team past the bound is refused with UNAVAILABLE and no log is forgotten", () => {
  const { clock, limiter } = createTestLimiter({ logsMax: 2 });
  limiter.spend("a", 1);
  limiter.spend("b", 1);
  expect(() => limiter.spend("c", 1)).toThrow(
    expect.objectContaining({ reason: "UNAVAILABLE", retryAfterMs: 1_000 }),
  );
  expect(limiter.spend("a", 1).accepted).toBe(false);
  expect(limiter.spend("b", 1).accepted).toBe(false);
  clock.advance(windowMs);
  expect(limiter.spend("c", 1).accepted).toBe(true);
});

test("past the bound the one empty log makes room, wherever it stands among busy ones", () => {
  const { clock, limiter } = createTestLimiter({ logsMax: 3 });
  limiter.spend("first", 9);
  limiter.spend("idle", 9);
  limiter.spend("last", 9);
  clock.advance(30_000);
  limiter.spend("first", 9);
  limiter.spend("last", 9);
  clock.advance(30_000);
  expect(limiter.spend("newcomer", 9).accepted).toBe(true);
  expect(limiter.peek("first", 9).remaining).toBe(8);
  expect(limiter.peek("last", 9).remaining).toBe(8);
});

test("empty logs are dropped as requests come in, two a request", () => {
  const { clock, limiter } = createTestLimiter();
  for (let n = 0; n < 100; n++) limiter.spend(`team-${n}`, 5);
  expect(limiter.size()).toBe(100);
  clock.advance(windowMs);
  for (let n = 0; n < 50; n++) limiter.spend("busy", 60);
  expect(limiter.size()).toBe(1);
});

test("where logs may be forgotten, the log that accepted nothing for longest goes first", () => {
  const { limiter } = createTestLimiter({ logsMax: 2, whenFull: "forget" });
  limiter.spend("a", 5);
  limiter.spend("b", 5);
  limiter.spend("a", 5);
  limiter.spend("c", 5);
  expect(limiter.size()).toBe(2);
  expect(limiter.peek("a", 5).remaining).toBe(3);
  expect(limiter.peek("b", 5).remaining).toBe(5);
});

test("however teams come and go, each gets the exact limit of its own log, unless the table is full of logs that count", () => {
  const command = fc.record({
    team: fc.constantFrom("a", "b", "c", "d", "e"),
    limit: fc.constantFrom(1, 2, 5),
    cost: fc.integer({ min: 0, max: 2 }),
    gapMs: fc.oneof(
      fc.double({ min: 0, max: 9_000, noNaN: true }),
      fc.constantFrom(0, 20_000, windowMs, 61_000),
    ),
  });
  fc.assert(
    fc.property(fc.array(command, { maxLength: 200, size: "max" }), (commands) => {
      const { clock, limiter } = createTestLimiter({ logsMax: 3 });
      const naive = new Map<string, ReturnType<typeof createNaiveLog>>();
      for (const { team, limit, cost, gapMs } of commands) {
        clock.advance(gapMs);
        const taken = Math.min(cost, limit);
        const log = naive.get(team) ?? createNaiveLog(windowMs);
        naive.set(team, log);
        const counting = [...naive.values()].filter(
          (one) => one.spend(clock.monotonicMs(), 9, 0).remaining < 9,
        );
        if (taken > 0 && counting.length === 3 && !counting.includes(log)) {
          expect(() => limiter.spend(team, limit, taken)).toThrow(
            expect.objectContaining({ reason: "UNAVAILABLE" }),
          );
          continue;
        }
        const expected = log.spend(clock.monotonicMs(), limit, taken);
        const { remaining, retryAfterMs, accepted } = limiter.spend(team, limit, taken);
        expect({ remaining, retryAfterMs, accepted }).toEqual({
          remaining: expected.remaining,
          retryAfterMs: expected.waitMs,
          accepted: expected.waitMs === 0,
        });
      }
    }),
  );
});
