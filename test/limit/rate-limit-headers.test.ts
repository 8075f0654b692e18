import fc from "fast-check";
import { expect, test } from "vitest";
import type { LimitDecision } from "#src/limit/limit-decision.ts";
import { createLimiter } from "#src/limit/limiter.ts";
import { type RateReport, rateLimitHeaders, rateReportHeaders } from "#src/limit/rate-limit-headers.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const nowMs = 1_700_000_000_000;
const accepted: LimitDecision = {
  accepted: true,
  limit: 300,
  remaining: 12,
  resetUnixMs: nowMs + 6_001,
  retryAfterMs: 0,
};

test("an accepted request gets its limit in both forms, every time rounded up, and no time to wait", () => {
  expect(rateLimitHeaders(accepted, "team", nowMs)).toEqual([
    "RateLimit-Limit",
    "300",
    "RateLimit-Remaining",
    "12",
    "RateLimit-Reset",
    "1700000007",
    "RateLimit",
    '"team";r=12;t=7',
    "RateLimit-Policy",
    '"team";q=300;w=60',
  ]);
});

test("a refused request gets the time to wait in seconds and in milliseconds, both rounded up and neither made from the reset", () => {
  const refused = { ...accepted, accepted: false, remaining: 0, retryAfterMs: 31_000.25 };
  expect(rateLimitHeaders(refused, "team", nowMs).slice(10)).toEqual([
    "Retry-After",
    "32",
    "Retry-After-Ms",
    "31001",
  ]);
});

test("the address's allowance has its own policy name, also where a team has the same limit", () => {
  const decision = { ...accepted, limit: 60 };
  expect(rateLimitHeaders(decision, "team", nowMs)[9]).toBe('"team";q=60;w=60');
  expect(rateLimitHeaders(decision, "address", nowMs)[9]).toBe('"address";q=60;w=60');
  expect(rateLimitHeaders(decision, "address", nowMs)[7]).toBe('"address";r=12;t=7');
});

const ofKey = (facts: Partial<LimitDecision>): LimitDecision => ({ ...accepted, limit: 20, ...facts });
const fields = (decision: LimitDecision) => {
  const headers = rateLimitHeaders(decision, "team", nowMs);
  return Object.fromEntries(headers.flatMap((name, n) => (n % 2 === 0 ? [[name, headers[n + 1]]] : [])));
};

test("where the key has a limit of its own, lists name both and the single numbers are those of the one with fewer left", () => {
  const key = ofKey({ remaining: 3, resetUnixMs: nowMs + 1_500 });
  const lists = {
    RateLimit: '"team";r=12;t=7, "key";r=3;t=2',
    "RateLimit-Policy": '"team";q=300;w=60, "key";q=20;w=60',
  };
  expect(fields({ ...accepted, key })).toEqual({
    ...lists,
    "RateLimit-Limit": "20",
    "RateLimit-Remaining": "3",
    "RateLimit-Reset": "1700000002",
  });
  expect(fields({ ...accepted, remaining: 2, key })).toMatchObject({
    RateLimit: '"team";r=2;t=7, "key";r=3;t=2',
    "RateLimit-Limit": "300",
    "RateLimit-Remaining": "2",
    "RateLimit-Reset": "1700000007",
  });
  expect(fields({ ...accepted, remaining: 3, key })["RateLimit-Limit"]).toBe("20");
});

test("on a refusal by either limit the wait is that of the one that frees later", () => {
  const team = { ...accepted, accepted: false, retryAfterMs: 7_000 };
  const key = ofKey({ accepted: false, retryAfterMs: 30_500 });
  expect(fields({ ...team, key })).toMatchObject({
    ...{ "RateLimit-Limit": "20", "Retry-After": "31", "Retry-After-Ms": "30500" },
  });
  expect(fields({ ...team, retryAfterMs: 40_000, key })).toMatchObject({
    ...{ "RateLimit-Limit": "300", "Retry-After": "40", "Retry-After-Ms": "40000" },
  });
});

test("where nothing is counted the reset is now, rounded up", () => {
  const clock = createManualClock({ monotonicMs: 0, unixMs: nowMs + 1 });
  const limiter = createLimiter({ clock, windowMs: 60_000, logsMax: 1 });
  const headers = rateLimitHeaders(limiter.peek("a", 60), "team", clock.unixMs());
  expect(headers[5]).toBe("1700000001");
  expect(headers[7]).toBe('"team";r=60;t=0');
});

test("a wall clock that steps between decision and headers gives no seconds below 0 or above 60", () => {
  expect(rateLimitHeaders(accepted, "team", nowMs + 3_600_000)[7]).toBe('"team";r=12;t=0');
  expect(rateLimitHeaders(accepted, "team", nowMs - 3_600_000)[7]).toBe('"team";r=12;t=60');
});

test("whatever the time of the refusal, Retry-After is 1 to 60 and waiting for it is enough", () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1e9, noNaN: true }),
      fc.double({ min: 0, max: 59_999.999, noNaN: true }),
      fc.integer({ min: 0, max: 999 }),
      (startMs, laterMs, wallMs) => {
        const clock = createManualClock({ monotonicMs: startMs, unixMs: nowMs + wallMs });
        const limiter = createLimiter({ clock, windowMs: 60_000, logsMax: 1 });
        limiter.spend("a", 1);
        clock.advance(laterMs);
        const refused = rateLimitHeaders(limiter.spend("a", 1), "team", clock.unixMs());
        const waitS = Number(refused[11]);
        expect(waitS).toBeGreaterThanOrEqual(1);
        expect(waitS).toBeLessThanOrEqual(60);
        clock.advance(Number(refused[13]));
        expect(limiter.spend("a", 1).accepted).toBe(true);
      },
    ),
  );
});

const resetTimeMs = Date.UTC(2027, 2, 1);
const february = {
  subject: "team",
  period: "month",
  limit: 100,
  granted: 20,
  used: 111,
  left: 9,
  startTimeMs: Date.UTC(2027, 1, 1),
  resetTimeMs,
} as const;
const reportAt = (unixMs: number, report: Partial<RateReport>) => {
  const decision = { accepted: true, limit: 60, remaining: 3, resetUnixMs: unixMs, retryAfterMs: 0 };
  const headers = rateReportHeaders(
    { policy: "team", decision, ...report },
    { unixMs: () => unixMs, monotonicMs: () => 0 },
  );
  return Object.fromEntries(headers.flatMap((name, n) => (n % 2 === 0 ? [[name, headers[n + 1]]] : [])));
};

test("quotas stand in the fields of the draft, with the true end and length of their period", () => {
  const day = {
    subject: "key",
    period: "day",
    limit: 5,
    granted: 0,
    used: 1,
    left: 4,
    startTimeMs: Date.UTC(2027, 1, 27),
    resetTimeMs: Date.UTC(2027, 1, 28),
  } as const;
  const headers = reportAt(Date.UTC(2027, 1, 27, 23, 59, 59), { quotas: [february, day] });
  expect(headers).toEqual({
    "RateLimit-Limit": "60",
    "RateLimit-Remaining": "3",
    "RateLimit-Reset": String(Date.UTC(2027, 1, 27, 23, 59, 59) / 1_000),
    RateLimit: '"team";r=3;t=0, "team-month";r=9;t=86401, "key-day";r=4;t=1',
    "RateLimit-Policy": '"team";q=60;w=60, "team-month";q=120;w=2419200, "key-day";q=5;w=86400',
  });
});

test("the other fields describe the quota that refuses, and no wait is told in milliseconds", () => {
  const state = { ...february, used: 120, left: 0 };
  const exceeded = { kind: "exceeded", state, retryAfterMs: 9_001 } as const;
  expect(reportAt(Date.UTC(2027, 1, 1), { quotas: [state], exceeded })).toEqual({
    "RateLimit-Limit": "120",
    "RateLimit-Remaining": "0",
    "RateLimit-Reset": String(resetTimeMs / 1_000),
    RateLimit: '"team";r=3;t=0, "team-month";r=0;t=2419200',
    "RateLimit-Policy": '"team";q=60;w=60, "team-month";q=120;w=2419200',
    "Retry-After": "10",
  });
});
