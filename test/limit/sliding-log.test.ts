import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SlidingLog } from "#src/limit/sliding-log.ts";
import { createRandom } from "../harness/seeded-random.ts";
import { createNaiveLog } from "./naive-log.ts";

const windowMs = 60_000;

describe("against a naive log of all accepted times", () => {
  test("a million commands get the same decision, remaining, reset and wait", () => {
    const { next: random, pick } = createRandom(718);
    let seen = { accepted: 0, refused: 0, downgradeWaits: 0, backSteps: 0, edges: 0 };
    for (let run = 0; run < 100; run++) {
      const log = new SlidingLog(windowMs);
      const naive = createNaiveLog(windowMs);
      let nowMs = random() * 1e9;
      let limit = 8;
      let state = { waitMs: 0, remaining: limit, resetAfterMs: 0 };
      for (let command = 0; command < 10_000; command++) {
        const kind = random();
        if (kind < 0.02) limit = pick([1, 2, 3, 5, 8, 13, 20, 40]);
        else if (kind < 0.03) seen = { ...seen, backSteps: seen.backSteps + 1 };
        const edgeMs = pick([state.waitMs, state.resetAfterMs]) + pick([-1 / 1024, 0, 1 / 1024]);
        if (kind >= 0.02 && kind < 0.03) nowMs -= random() * 100_000;
        else if (kind < 0.13) nowMs += edgeMs;
        else if (kind < 0.14) nowMs += random() * 200_000;
        else if (kind < 0.8) nowMs += random() * 4_000;
        const cost = random() < 0.7 ? 1 : Math.floor(random() * (limit + 1));
        const waitMs = log.spend(nowMs, limit, cost);
        state = naive.spend(nowMs, limit, cost);
        const { count, resetAfterMs } = log;
        const agree =
          waitMs === state.waitMs &&
          Math.max(0, limit - count) === state.remaining &&
          resetAfterMs === state.resetAfterMs;
        if (!agree) {
          expect({ run, command, waitMs, remaining: Math.max(0, limit - count), resetAfterMs }).toEqual({
            run,
            command,
            ...state,
          });
        }
        if (waitMs === 0) seen.accepted++;
        else seen.refused++;
        if (waitMs > 0 && count > limit) seen.downgradeWaits++;
        if (kind >= 0.03 && kind < 0.13) seen.edges++;
      }
    }
    // The commands did reach the cases that they are for.
    for (const times of Object.values(seen)) expect(times).toBeGreaterThan(5_000);
  });
});

/** Limits, and the gaps between requests as a clock with fractions would have them. */
const traffic = fc.record({
  startMs: fc.double({ min: 0, max: 1e10, noNaN: true }),
  limit: fc.integer({ min: 1, max: 50 }),
  gapsMs: fc.array(fc.oneof(fc.double({ min: 0, max: 3_000, noNaN: true }), fc.constant(0)), {
    minLength: 1,
    maxLength: 300,
    size: "max",
  }),
});

describe("for any traffic", () => {
  test("no span of 60 s holds more accepted requests than the limit", () => {
    fc.assert(
      fc.property(traffic, ({ startMs, limit, gapsMs }) => {
        const log = new SlidingLog(windowMs);
        const acceptedMs: number[] = [];
        let nowMs = startMs;
        for (const gapMs of gapsMs) {
          nowMs += gapMs;
          if (log.spend(nowMs, limit, 1) === 0) acceptedMs.push(nowMs);
        }
        // In any row of limit + 1 requests, the first and the last are a window apart, less a tick
        // of the clock.
        return acceptedMs.every((timeMs, n) => {
          const firstMs = acceptedMs[n - limit];
          return firstMs === undefined || timeMs - firstMs > windowMs - 1 / 512;
        });
      }),
    );
  });

  test("a request sent after exactly Retry-After-Ms or Retry-After is accepted, and one sent a millisecond early is not", () => {
    let refusals = 0;
    fc.assert(
      fc.property(traffic, fc.boolean(), ({ startMs, limit, gapsMs }, inSeconds) => {
        const log = new SlidingLog(windowMs);
        let nowMs = startMs;
        for (const gapMs of gapsMs) {
          nowMs += gapMs;
          const waitMs = log.spend(nowMs, limit, 1);
          if (waitMs === 0) continue;
          refusals++;
          expect(waitMs).toBeLessThanOrEqual(windowMs);
          expect(log.spend(nowMs + waitMs - 1, limit, 1)).toBeGreaterThan(0);
          nowMs += inSeconds ? Math.ceil(waitMs / 1000) * 1000 : Math.ceil(waitMs);
          expect(log.spend(nowMs, limit, 1)).toBe(0);
        }
      }),
    );
    expect(refusals).toBeGreaterThan(100);
  });

  test("a steady client at the limit is never refused", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3_000 }),
        fc.double({ min: 0, max: 1e10, noNaN: true }),
        (limit, startMs) => {
          const log = new SlidingLog(windowMs);
          const gapMs = Math.ceil(windowMs / limit);
          for (let n = 0; n < 2 * limit + 2; n++) {
            if (log.spend(startMs + n * gapMs, limit, 1) !== 0) return false;
          }
          return true;
        },
      ),
    );
  });
});

test("an entry counts until just before a whole window has passed", () => {
  const log = new SlidingLog(windowMs);
  log.spend(5, 1, 1);
  expect(log.spend(60_005 - 1 / 1024, 1, 1)).toBe(1 / 1024);
  expect(log.spend(60_005, 1, 1)).toBe(0);
});

test("a cost that does not fit whole takes nothing", () => {
  const log = new SlidingLog(windowMs);
  log.spend(0, 10, 8);
  expect(log.spend(1, 10, 3)).toBe(59_999);
  expect(log.count).toBe(8);
  expect(log.spend(2, 10, 2)).toBe(0);
});

test("a cost of 0 is taken even where the limit is used up", () => {
  const log = new SlidingLog(windowMs);
  log.spend(0, 5, 5);
  expect(log.spend(1, 5, 0)).toBe(0);
  expect(log.count).toBe(5);
});

test("after a downgrade the wait is for the entry that brings the count below the limit", () => {
  const log = new SlidingLog(windowMs);
  for (let n = 0; n < 10; n++) log.spend(n * 1_000, 10, 1);
  // Eight of ten must leave before a limit of three has room: the eighth came at 7 s.
  expect(log.spend(10_000, 3, 1)).toBe(57_000);
  expect(log.resetAfterMs).toBe(50_000);
  expect(log.spend(67_000, 3, 1)).toBe(0);
});

test("an upgrade keeps what was counted", () => {
  const log = new SlidingLog(windowMs);
  log.spend(0, 3, 3);
  expect(log.spend(1, 5, 2)).toBe(0);
  expect(log.spend(2, 5, 1)).toBe(59_998);
});

test("a clock that steps back counts as standing still, and frees nothing", () => {
  const log = new SlidingLog(windowMs);
  log.spend(100_000, 2, 1);
  log.spend(10_000, 2, 1);
  expect(log.spend(0, 2, 1)).toBe(60_000);
  expect(log.spend(159_999, 2, 1)).toBe(1);
  expect(log.spend(160_000, 2, 2)).toBe(0);
});

test("a cost that is no whole number from 0 to the limit throws and takes nothing", () => {
  const log = new SlidingLog(windowMs);
  for (const cost of [-1, 0.5, 6, Number.NaN]) expect(() => log.spend(0, 5, cost)).toThrow(RangeError);
  expect(log.count).toBe(0);
});

test("an accepted request leaves at most 8 bytes for each of the limit, also after a downgrade", () => {
  const log = new SlidingLog(windowMs);
  let nowMs = 0;
  for (const limit of [1, 3, 60, 300, 3_000, 60, 7]) {
    nowMs += windowMs;
    for (let n = 0; n < limit; n++) {
      expect(log.spend(nowMs, limit, 1)).toBe(0);
      expect(log.byteLength).toBeLessThanOrEqual(8 * limit);
    }
  }
});

test("a quiet caller of a large limit takes few bytes, and a ring that wrapped grows without losing an entry", () => {
  const log = new SlidingLog(windowMs);
  for (let n = 0; n < 5; n++) log.spend(n, 3_000, 1);
  expect(log.byteLength).toBeLessThanOrEqual(64);
  // The first five leave, so the ring of eight starts in its middle when the ninth comes.
  for (let n = 0; n < 6; n++) log.spend(60_004 + n, 3_000, 1);
  for (let n = 0; n < 20; n++) log.spend(61_000 + n, 3_000, 1);
  expect(log.count).toBe(26);
  expect(log.byteLength).toBeLessThanOrEqual(8 * 32);
  expect(log.spend(120_004, 26, 2)).toBe(1);
});
