import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createStaggered } from "#src/server/connection/split-protocols.ts";

/** What has started after each turn, until so much has. */
async function startedByTurn(done: readonly string[], whole: number): Promise<string[]> {
  const turns: string[] = [];
  while (done.length < whole) {
    const before = done.length;
    await nextTurn();
    turns.push(done.slice(before).join(""));
  }
  return turns;
}

test("a turn starts at most as many connections as it may, in order, and leaves the others to the next turns", async () => {
  const done: string[] = [];
  const { start } = createStaggered(2, 10);
  for (const name of "abcde") start(() => void done.push(name), "few");
  expect(done).toEqual([]);
  expect(await startedByTurn(done, 5)).toEqual(["a", "bc", "de"]);
});

test("those with few first bytes go before those with many, which take the last place of each turn", async () => {
  const done: string[] = [];
  const { start } = createStaggered(3, 10);
  for (const name of "ABCDE") start(() => void done.push(name), "many");
  for (const name of "abcdef") start(() => void done.push(name), "few");
  expect(await startedByTurn(done, 11)).toEqual(["A", "abB", "cdC", "efD", "E"]);
});

test("those with many wait while new connections are accepted, but not for ever", async () => {
  const done: string[] = [];
  const { start, accepted } = createStaggered(2, 5);
  for (const name of "ABC") start(() => void done.push(name), "many");
  const turns: string[] = [];
  for (let turn = 0; turn < 8; turn += 1) {
    const before = done.length;
    accepted();
    if (turn === 2) start(() => void done.push("a"), "few");
    await nextTurn();
    turns.push(done.slice(before).join(""));
  }
  expect(turns).toEqual(["", "", "a", "", "", "AB", "", ""]);
  expect(await startedByTurn(done, 4)).toEqual(["C"]);
});
