import { expect, test } from "vitest";
import { createLeaseLog } from "#src/app/lease-log.ts";

function watched() {
  const world = { mayAdmit: true, why: undefined as string | undefined };
  const lines: string[] = [];
  const line = (level: string) => (facts: object, words: string) =>
    void lines.push(`${level} ${JSON.stringify(facts)} ${words.replace(/:.*/, "")}`);
  const log = { error: line("error"), info: line("info") } as never;
  const leaseLog = createLeaseLog({ mayAdmit: () => world.mayAdmit, whyNot: () => world.why, log });
  return { world, lines, leaseLog };
}

const lost = 'error {"cause":"no store"} this instance has lost its lease';
const back = 'info {"cause":"no store"} this instance holds its lease';

test("a loss is one line, and its end is one, each with the cause, however often it is looked at", () => {
  const { world, lines, leaseLog } = watched();
  leaseLog.check();
  leaseLog.check();
  expect(lines).toEqual([]);
  Object.assign(world, { mayAdmit: false, why: "no store" });
  leaseLog.check();
  world.why = "another";
  leaseLog.check();
  expect(lines).toEqual([lost]);
  Object.assign(world, { mayAdmit: true, why: undefined });
  leaseLog.check();
  leaseLog.check();
  expect(lines).toEqual([lost, back]);
});

test("an end that is told of is not told again, and one of a loss that nobody saw has its cause", () => {
  const { world, lines, leaseLog } = watched();
  leaseLog.taken();
  Object.assign(world, { mayAdmit: false, why: "no store" });
  leaseLog.check();
  world.mayAdmit = true;
  leaseLog.taken("no store");
  leaseLog.check();
  leaseLog.taken("a stop");
  const first = "info {} this instance holds its lease";
  expect(lines).toEqual([first, lost, back, 'info {"cause":"a stop"} this instance holds its lease']);
});
