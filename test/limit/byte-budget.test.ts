import fc from "fast-check";
import { expect, test } from "vitest";
import { ByteBudget, type HeldBytes, textBytes } from "#src/limit/byte-budget.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const bytesMax = 6_400;

function open() {
  const clock = createManualClock();
  return { clock, budget: new ByteBudget(clock, bytesMax) };
}

test("a team alone holds half of the bound, and a quarter while another team has asked within a minute", () => {
  const { clock, budget } = open();
  expect(budget.open("a").take(bytesMax / 2)).toBe(true);
  expect(budget.open("a").take(101)).toBe(false);
  expect(budget.open("b").take(bytesMax / 4)).toBe(true);
  expect(budget.open("b").take(101)).toBe(false);
  clock.advance(60_000);
  // The bound of all teams that hold much is reached.
  expect(budget.open("b").take(101)).toBe(false);
  expect(budget.bytes).toBe(0.75 * bytesMax);
});

test("a team that holds as much as it may beside others gets the rest when none has asked for a minute", () => {
  const { clock, budget } = open();
  budget.open("b").take(1);
  const held = budget.open("a");
  expect(held.take(bytesMax / 4)).toBe(true);
  expect(held.take(1)).toBe(false);
  clock.advance(59_999);
  expect(held.take(1)).toBe(false);
  clock.advance(1);
  expect(held.take(bytesMax / 4)).toBe(true);
});

test("a team that holds little is served beside teams that hold all that they may", () => {
  const { budget } = open();
  for (const team of ["a", "b", "c"]) expect(budget.open(team).take(bytesMax / 4)).toBe(true);
  for (const team of ["a", "b", "c"]) expect(budget.open(team).take(1)).toBe(false);
  for (let team = 0; team < 16; team++) expect(budget.open(`little ${team}`).take(bytesMax / 64)).toBe(true);
  expect(budget.bytes).toBe(bytesMax);
  expect(budget.open("one more").take(1)).toBe(false);
});

test("in any order of takes, gives and releases the count is what is held, within the bounds, and 0 at the end", () => {
  const step = fc.record({
    what: fc.constantFrom("open", "take", "takeUpTo", "give", "release", "wait"),
    at: fc.nat(7),
    team: fc.constantFrom("a", "b", "c"),
    bytes: fc.oneof(fc.nat(200), fc.nat(bytesMax)),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const { clock, budget } = open();
      const all: { held: HeldBytes; team: string; bytes: number; isOver: boolean }[] = [];
      const sumOf = (team?: string) =>
        all.reduce((sum, one) => (team === undefined || one.team === team ? sum + one.bytes : sum), 0);
      for (const { what, at, team, bytes } of steps) {
        const one = all[at % Math.max(1, all.length)];
        if (what === "open") all.push({ held: budget.open(team), team, bytes: 0, isOver: false });
        if (what === "wait") clock.advance(bytes * 20);
        if (!one) continue;
        const before = sumOf(one.team);
        const wanted = what === "takeUpTo" ? Math.max(0, bytes - one.bytes) : bytes;
        if (what === "take" || what === "takeUpTo") {
          const isTaken = what === "take" ? one.held.take(bytes) : one.held.takeUpTo(bytes);
          if (isTaken && !one.isOver) one.bytes += wanted;
          if (isTaken && !one.isOver && wanted > 0) expect(before + wanted).toBeLessThanOrEqual(bytesMax / 2);
        }
        if (what === "give") {
          one.held.give(bytes);
          one.bytes = Math.max(0, one.bytes - bytes);
        }
        if (what === "release") {
          one.held.release();
          one.bytes = 0;
          one.isOver = true;
        }
        expect(budget.bytes).toBe(sumOf());
        expect(budget.bytes).toBeLessThanOrEqual(bytesMax);
      }
      for (const { held } of all) held.release();
      for (const { held } of all) held.release();
      expect(budget.bytes).toBe(0);
    }),
  );
});

test("a text counts two bytes for each letter if one letter may need them", () => {
  expect(textBytes("abc")).toBe(3);
  expect(textBytes("ab☀")).toBe(6);
});
