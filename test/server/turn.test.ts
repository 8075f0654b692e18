import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createTurn } from "#src/server/turn.ts";

test("what is put off in one turn is done after it, in its order; what it puts off itself waits for the next", async () => {
  const done: string[] = [];
  const putOff = createTurn();
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
