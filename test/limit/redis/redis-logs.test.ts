import { expect, test } from "vitest";
import { createServerClock } from "#src/limit/redis/redis-logs.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

const startUs = 1_790_000_000_000_000;

test("the fastest answer bounds the server's clock best, for 10 to 20 s", () => {
  const clock = createManualClock({ monotonicMs: 50, unixMs: 0 });
  const server = createServerClock(clock, startUs);
  expect(server.atUs(150)).toBe(startUs + 100_000);
  clock.advance(10);
  // Read 4 ms sooner after the server wrote it, then 9 ms later.
  server.learn(startUs + 14_000);
  server.learn(startUs + 5_000);
  expect(server.atUs(60)).toBe(startUs + 14_000);
  // A server whose clock runs slower.
  clock.advance(10_000);
  server.learn(startUs + 10_010_000);
  expect(server.atUs(10_060)).toBe(startUs + 10_014_000);
  clock.advance(10_000);
  server.learn(startUs + 20_010_000);
  expect(server.atUs(20_060)).toBe(startUs + 20_010_000);
});

test("a step forward of the server's clock counts at once", () => {
  const clock = createManualClock();
  const server = createServerClock(clock, startUs);
  server.learn(startUs + 3_600_000_000);
  expect(server.atUs(0)).toBe(startUs + 3_600_000_000);
});
