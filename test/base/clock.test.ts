import { expect, onTestFinished, test, vi } from "vitest";
import { createRepeatedWork, ownTurn } from "#src/base/clock.ts";
import { countTurns } from "../harness/counted-turns.ts";

test("a turn of the event loop is for one piece of work, in the order in which they asked", async () => {
  const turns = countTurns();
  const done: [string, number][] = [];
  await Promise.all(
    ["a", "b", "c"].map(async (name) => {
      await ownTurn();
      done.push([name, turns()]);
    }),
  );
  expect(done.map(([name]) => name)).toEqual(["a", "b", "c"]);
  expect(new Set(done.map(([, turn]) => turn)).size).toBe(3);
});

test("repeated work runs once at a time: a caller that asks meanwhile waits for that run", async () => {
  const gates: PromiseWithResolvers<void>[] = [];
  const repeated = createRepeatedWork(() => {
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    return gate.promise;
  }, 60_000);
  const both = Promise.all([repeated.run(), repeated.run()]);
  expect(gates.length).toBe(1);
  gates[0]?.resolve();
  await both;
  const again = repeated.run();
  expect(gates.length).toBe(2);
  let hasStopped = false;
  const stopped = repeated.stop().then(() => {
    hasStopped = true;
  });
  await ownTurn();
  expect(hasStopped).toBe(false);
  gates[1]?.resolve();
  await Promise.all([again, stopped]);
});

test("started work is repeated at its time, and no more once it is stopped", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  let runs = 0;
  const repeated = createRepeatedWork(async () => {
    runs += 1;
  }, 60_000);
  repeated.start();
  repeated.start();
  await vi.advanceTimersByTimeAsync(59_999);
  expect(runs).toBe(0);
  await vi.advanceTimersByTimeAsync(60_001);
  expect(runs).toBe(2);
  await repeated.stop();
  await vi.advanceTimersByTimeAsync(120_000);
  expect(runs).toBe(2);
});
