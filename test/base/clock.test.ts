import { expect, test } from "vitest";
import { ownTurn } from "#src/base/clock.ts";
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
