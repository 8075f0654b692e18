import fc from "fast-check";
import { expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { rateLimitHeaders } from "#src/limit/rate-limit-headers.ts";
import { Batch } from "#src/limit/redis/reconnecting-redis.ts";
import type { Answer, Ask } from "#src/limit/redis/shared-logs.ts";
import { SlidingLog } from "#src/limit/sliding-log.ts";

const windowMs = 60_000;

const spend = fc.record({
  teamId: fc.constantFrom("a", "b", "c"),
  limit: fc.constantFrom(1, 3, 8),
  cost: fc.integer({ min: 0, max: 3 }),
});
const turns = fc.array(
  fc.record({ gapMs: fc.constantFrom(0, 0.5, 100, 20_000, windowMs), spends: fc.array(spend) }),
  { maxLength: 20 },
);

test("each spend of a turn is answered as if it had come alone, and its headers tell a wait that is enough", async () => {
  let refusals = 0;
  await fc.assert(
    fc.asyncProperty(turns, async (all) => {
      const shared = new Map<string, RecordedLog>();
      const alone = new Map<string, RecordedLog>();
      let nowMs = 0;
      for (const { gapMs, spends } of all) {
        nowMs += gapMs;
        const batch = new Batch();
        const got: Promise<Answer | undefined>[] = [];
        const wanted: Answer[] = [];
        for (const one of spends) {
          const cost = Math.min(one.cost, one.limit);
          got.push(batch.add({ ...one, cost }));
          const log = logOf(alone, one.teamId);
          const answer = answerOf(log, nowMs, { ...one, cost, count: 1 });
          wanted.push(answer);
          if (answer.taken === 0) checkWait(log.copy(), nowMs, { ...one, cost, answer });
        }
        batch.answer(batch.asks.map((ask) => answerOf(logOf(shared, ask.teamId), nowMs, ask)));
        expect(await Promise.all(got)).toEqual(wanted);
        refusals += wanted.filter(({ taken }) => taken === 0).length;
      }
    }),
  );
  expect(refusals).toBeGreaterThan(500);
});

/** The headers of a refusal, for a caller that nobody comes before. */
function checkWait(
  log: RecordedLog,
  nowMs: number,
  { limit, cost, answer }: { limit: number; cost: number; answer: Answer },
): void {
  const { count, resetAfterMs, retryAfterMs } = answer;
  const remaining = Math.max(0, limit - count);
  const decision = { accepted: false, limit, remaining, resetUnixMs: nowMs + resetAfterMs, retryAfterMs };
  const headers = rateLimitHeaders(decision, "team", nowMs);
  const numberOf = (name: string) => Number(headers[headers.indexOf(name) + 1]);
  expect([numberOf("RateLimit-Remaining"), numberOf("RateLimit-Limit")]).toEqual([remaining, limit]);
  expect(numberOf("Retry-After-Ms")).toBeLessThanOrEqual(windowMs);
  expect(numberOf("Retry-After") * 1_000).toBeGreaterThanOrEqual(numberOf("Retry-After-Ms"));
  expect(log.spend(nowMs + numberOf("Retry-After-Ms"), limit, cost)).toBe(0);
}

test("alike spends of a team are one ask, and a batch is full at its bound of asks", () => {
  const batch = new Batch();
  const add = (teamId: string, cost: number) => void batch.add({ teamId, limit: 5, cost });
  add("a", 1);
  add("b", 1);
  for (let n = 0; n < 31; n++) add("a", 1);
  expect(batch.asks).toMatchObject([
    { teamId: "a", count: 32 },
    { teamId: "b", count: 1 },
  ]);
  for (let n = 2; n < bounds.sharedAsksPerCallMax; n++) {
    expect(batch.hasRoom()).toBe(true);
    add(`team-${n}`, 1);
  }
  expect(batch.hasRoom()).toBe(false);
});

function logOf(logs: Map<string, RecordedLog>, teamId: string): RecordedLog {
  const log = logs.get(teamId) ?? new RecordedLog();
  logs.set(teamId, log);
  return log;
}

function answerOf(log: RecordedLog, nowMs: number, { limit, cost, count }: Ask): Answer {
  let [taken, retryAfterMs] = [0, 0];
  for (let n = 0; n < count; n++) {
    const waitMs = log.spend(nowMs, limit, cost);
    if (waitMs === 0) taken++;
    else retryAfterMs = waitMs;
  }
  return { taken, count: log.count, resetAfterMs: log.resetAfterMs, retryAfterMs };
}

/** A log that can be copied: it notes what it has taken. */
class RecordedLog {
  readonly #log = new SlidingLog(windowMs);
  readonly #taken: (readonly [nowMs: number, cost: number])[] = [];

  spend(nowMs: number, limit: number, cost: number): number {
    const waitMs = this.#log.spend(nowMs, limit, cost);
    if (waitMs === 0) this.#taken.push([nowMs, cost]);
    return waitMs;
  }

  copy(): RecordedLog {
    const copy = new RecordedLog();
    for (const [nowMs, cost] of this.#taken) copy.spend(nowMs, Number.MAX_SAFE_INTEGER, cost);
    return copy;
  }

  get count(): number {
    return this.#log.count;
  }

  get resetAfterMs(): number {
    return this.#log.resetAfterMs;
  }
}
