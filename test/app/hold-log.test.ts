import { expect, test } from "vitest";
import { createHoldLog } from "#src/app/hold-log.ts";

function watched() {
  const world = { holds: true, why: undefined as string | undefined };
  const lines: string[] = [];
  const line = (level: string) => (facts: object, words: string) =>
    void lines.push(`${level} ${JSON.stringify(facts)} ${words.replace(/:.*/, "")}`);
  const log = { error: line("error"), info: line("info") } as never;
  const hold = createHoldLog({ holds: () => world.holds, whyNot: () => world.why, log });
  return { world, lines, hold };
}

const lost = 'error {"cause":"no store"} this instance has lost its lease';
const back = 'info {"cause":"no store"} this instance holds its lease';

test("a loss is one line, and its end is one, each with the cause, however often it is looked at", () => {
  const { world, lines, hold } = watched();
  hold.look();
  hold.look();
  expect(lines).toEqual([]);
  Object.assign(world, { holds: false, why: "no store" });
  hold.look();
  world.why = "another";
  hold.look();
  expect(lines).toEqual([lost]);
  Object.assign(world, { holds: true, why: undefined });
  hold.look();
  hold.look();
  expect(lines).toEqual([lost, back]);
});

test("an end that is told of is not told again, and one of a loss that nobody saw has its cause", () => {
  const { world, lines, hold } = watched();
  hold.held();
  Object.assign(world, { holds: false, why: "no store" });
  hold.look();
  world.holds = true;
  hold.held("no store");
  hold.look();
  hold.held("a stop");
  const first = "info {} this instance holds its lease";
  expect(lines).toEqual([first, lost, back, 'info {"cause":"a stop"} this instance holds its lease']);
});
