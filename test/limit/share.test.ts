import fc from "fast-check";
import { expect, test } from "vitest";
import type { KeyLimit } from "#src/limit/limit-decision.ts";
import { createLimiter } from "#src/limit/limiter.ts";
import { createShare, type SharePlace, shareOf } from "#src/limit/share.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const windowMs = 60_000;

function createTestShare(sharePlace: SharePlace | undefined) {
  const clock = createManualClock();
  const own = createLimiter({ clock, windowMs, logsMax: 10 });
  return { clock, share: createShare(own, () => sharePlace, windowMs) };
}

/** Of a cost that was spent under some limit. */
const costOf = (teamId: string, cost: number, key?: KeyLimit) => ({ teamId, limit: 60, cost, key });

test("the shares of all instances add up to the limit, and differ by one at most", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100_000 }), fc.integer({ min: 1, max: 30 }), (limit, of) => {
      const shares = Array.from({ length: of }, (_, place) => shareOf(limit, { place, of }));
      expect(shares.reduce((sum, one) => sum + one)).toBe(limit);
      expect(shares[0]! - shares.at(-1)!).toBeLessThanOrEqual(1);
    }),
  );
});

test("no share, one of 0, or a cost above it is refused with UNAVAILABLE", () => {
  const unavailable = expect.objectContaining({ reason: "UNAVAILABLE", retryAfterMs: 1_000 });
  expect(() => createTestShare(undefined).share.spend({ teamId: "a", limit: 60, cost: 1 })).toThrow(
    unavailable,
  );
  expect(() => createTestShare({ place: 2, of: 3 }).share.spend({ teamId: "a", limit: 2, cost: 1 })).toThrow(
    unavailable,
  );
  expect(() =>
    createTestShare({ place: 0, of: 3 }).share.spend({ teamId: "a", limit: 60, cost: 21 }),
  ).toThrow(unavailable);
  expect(
    createTestShare({ place: 0, of: 3 }).share.spend({ teamId: "a", limit: 60, cost: 20 }),
  ).toMatchObject({
    ...{ accepted: true, limit: 60, remaining: 0 },
  });
});

test("what Redis accepted here counts against the share", () => {
  const { clock, share } = createTestShare({ place: 0, of: 2 });
  share.record(costOf("a", 25));
  expect(share.spend({ teamId: "a", limit: 60, cost: 5 })).toMatchObject({ accepted: true, remaining: 0 });
  clock.advance(1_000);
  expect(share.spend({ teamId: "a", limit: 60, cost: 1 })).toMatchObject({
    accepted: false,
    retryAfterMs: windowMs - 1_000,
  });
  expect(share.peek("a", 60)).toMatchObject({ limit: 60, remaining: 0 });
});

test("what is held has no room for others until it is released", () => {
  const { share } = createTestShare({ place: 0, of: 2 });
  expect(share.reserve({ teamId: "a", limit: 8, cost: 3 })).toBeUndefined();
  expect(share.reserve({ teamId: "a", limit: 8, cost: 2 })).toMatchObject({
    accepted: false,
    remaining: 1,
    retryAfterMs: windowMs,
  });
  expect(share.reserve({ teamId: "a", limit: 8, cost: 1 })).toBeUndefined();
  share.release(costOf("a", 3));
  expect(share.reserve({ teamId: "a", limit: 8, cost: 3 })).toBeUndefined();
  share.release(costOf("a", 1));
  share.release(costOf("a", 3));
  share.record(costOf("a", 4));
  expect(share.reserve({ teamId: "a", limit: 8, cost: 1 })).toMatchObject({
    accepted: false,
    remaining: 0,
    limit: 8,
  });
});

test("a key without a share of its own limit is left to the shared log, and its team's room is kept", () => {
  const { share } = createTestShare({ place: 2, of: 3 });
  const key = { firstKeyId: "k", limit: 2 };
  const unavailable = expect.objectContaining({ reason: "UNAVAILABLE" });
  expect(() => share.spend({ teamId: "a", limit: 60, cost: 1, key })).toThrow(unavailable);
  for (let n = 0; n < 20; n += 1)
    expect(share.reserve({ teamId: "a", limit: 60, cost: 1, key })).toBeUndefined();
  expect(share.reserve({ teamId: "a", limit: 60, cost: 1, key })).toMatchObject({ accepted: false });
  for (let n = 0; n < 20; n += 1) share.release(costOf("a", 1, key));
  expect(share.reserve({ teamId: "a", limit: 60, cost: 1, key })).toBeUndefined();
});

test("a share holds room in both limits or in neither, and says of each how long it refuses", () => {
  const { clock, share } = createTestShare({ place: 0, of: 2 });
  const own4 = { firstKeyId: "k", limit: 8 };
  share.record(costOf("demo", 3, own4));
  clock.advance(1_000);
  expect(share.reserve({ teamId: "demo", limit: 60, cost: 1, key: own4 })).toBeUndefined();
  // What is under way has the rest of the key's share.
  expect(share.reserve({ teamId: "demo", limit: 60, cost: 1, key: own4 })).toMatchObject({
    ...{ accepted: false, limit: 60, remaining: 26, retryAfterMs: 0 },
    key: { accepted: false, limit: 8, remaining: 0, retryAfterMs: windowMs },
  });
  expect(share.reserve({ teamId: "demo", limit: 60, cost: 2, key: own4 })).toMatchObject({
    ...{ retryAfterMs: 0, key: { remaining: 0, retryAfterMs: windowMs - 1_000 } },
  });
  share.release(costOf("demo", 1, own4));
  expect(share.spend({ teamId: "demo", limit: 60, cost: 1, key: own4 })).toMatchObject({
    accepted: true,
    key: { remaining: 0 },
  });
  expect(share.peek("demo", 60, own4)).toMatchObject({ remaining: 26, limit: 60, key: { limit: 8 } });
  const unavailable = expect.objectContaining({ reason: "UNAVAILABLE" });
  expect(() => share.spend({ teamId: "demo", limit: 60, cost: 5, key: own4 })).toThrow(unavailable);
});
