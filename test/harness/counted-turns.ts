import { onTestFinished } from "vitest";

/** Counts the turns of the event loop until the end of the test. */
export function countTurns(): () => number {
  let turns = 0;
  let next = setImmediate(function turn() {
    turns += 1;
    next = setImmediate(turn);
  });
  onTestFinished(() => clearImmediate(next));
  return () => turns;
}
