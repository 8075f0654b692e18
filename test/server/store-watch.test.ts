import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { watchStore } from "#src/server/readiness.ts";

/** A watch without a pause. Each check waits until the test lets it succeed or fail. */
function watchChecks() {
  const waiting: PromiseWithResolvers<void>[] = [];
  let asked = Promise.withResolvers<void>();
  let asks = 0;
  const changes: unknown[] = [];
  const watch = watchStore({
    check: () => {
      const check = Promise.withResolvers<void>();
      asks++;
      waiting.push(check);
      asked.resolve();
      return check.promise;
    },
    everyMs: 1,
    failuresMin: 2,
    onChange: (change) => changes.push(change),
  });
  onTestFinished(watch.close);
  /** Ends the check that is asked next, and returns once the one after it is asked. */
  const end = async (cause?: Error) => {
    await asked.promise;
    asked = Promise.withResolvers();
    const check = waiting.shift();
    if (cause) check?.reject(cause);
    else check?.resolve();
    await asked.promise;
  };
  return { watch, changes, end, asks: () => asks };
}

const fault = new Error("malformed");

test("a store counts as answering until checks fail in a row, and again from the first that succeeds", async () => {
  const { watch, changes, end } = watchChecks();
  expect(watch.answers()).toBe(true);
  await end(fault);
  expect(watch.answers()).toBe(true);
  await end();
  await end(fault);
  expect([watch.answers(), changes]).toEqual([true, []]);
  await end(fault);
  expect([watch.answers(), changes]).toEqual([false, [{ answers: false, cause: fault }]]);
  for (let n = 0; n < 5; n++) await end(fault);
  expect([watch.answers(), changes.length]).toEqual([false, 1]);
  await end();
  expect([watch.answers(), changes[1]]).toEqual([true, { answers: true }]);
  await end();
  expect(changes).toHaveLength(2);
});

test("a check that does not end keeps the next one from being asked", async () => {
  const { end, asks } = watchChecks();
  await end();
  const before = asks();
  // Each of these comes after a pause that began later.
  for (let pauses = 0; pauses < 3; pauses++) await pause(2);
  expect(asks()).toBe(before);
});
