import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createBatch } from "#src/server/exchange/exchange.ts";

test("the tasks of one turn run after it, in order; a task that such a task adds waits for the next turn", async () => {
  const done: string[] = [];
  const putOff = createBatch(10);
  putOff({
    run() {
      done.push("first");
      putOff({ run: () => void done.push("next turn") });
    },
  });
  putOff({ run: () => void done.push("second") });
  await Promise.resolve();
  expect(done).toEqual([]);
  await nextTurn();
  expect(done).toEqual(["first", "second"]);
  await nextTurn();
  expect(done).toEqual(["first", "second", "next turn"]);
});

test("the tasks run at once when as many wait as may", async () => {
  const done: string[] = [];
  const putOff = createBatch(2);
  for (const name of ["first", "second", "third"]) putOff({ run: () => void done.push(name) });
  expect(done).toEqual(["first", "second"]);
  await nextTurn();
  expect(done).toEqual(["first", "second", "third"]);
});
