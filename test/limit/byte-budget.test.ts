import fc from "fast-check";
import { expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { ByteBudget, type TeamReservation } from "#src/limit/byte-budget.ts";

const bytesMax = 128 * bounds.uncountedRunBytes;
/** Twice these are reserved: all of the budget. */
const allBytes = bytesMax / 2;

test("a team reserves half of the bound, and all teams that reserve much three quarters", () => {
  const budget = new ByteBudget(bytesMax);
  expect(budget.open("a").reserve(allBytes / 2)).toBe(true);
  expect(budget.open("a").reserve(bounds.uncountedRunBytes)).toBe(false);
  expect(budget.open("b").reserve(allBytes / 4)).toBe(true);
  expect(budget.open("b").reserve(bounds.uncountedRunBytes)).toBe(false);
  expect(budget.bytes).toBe(0.75 * bytesMax);
});

test("a team that has reserved little is served beside teams that have reserved all that they may", () => {
  const budget = new ByteBudget(bytesMax);
  for (const team of ["a", "b"]) budget.open(team).reserve(allBytes / 2);
  budget.open("b").reserve(allBytes / 4);
  for (let team = 0; team < 16; team++)
    expect(budget.open(`little ${team}`).reserve(allBytes / 64)).toBe(true);
  expect(budget.bytes).toBe(bytesMax);
  expect(budget.open("one more").reserve(bounds.uncountedRunBytes)).toBe(false);
});

test("a small run is not counted, and has room where none is left", () => {
  const budget = new ByteBudget(bytesMax);
  const small = budget.open("a");
  expect(small.reserve(bounds.uncountedRunBytes / 2)).toBe(true);
  expect(budget.bytes).toBe(0);
  expect(small.reserve(1)).toBe(true);
  expect(budget.bytes).toBe(bounds.uncountedRunBytes + 2);
  budget.open("a").reserve(allBytes / 2 - bounds.uncountedRunBytes / 2 - 1);
  expect(budget.open("a").reserve(bounds.uncountedRunBytes / 2)).toBe(true);
});

test("in any order of reservations and releases the count is what is reserved, within the bounds, and 0 at the end", () => {
  const step = fc.record({
    what: fc.constantFrom("open", "reserve", "reserveUpTo", "release"),
    at: fc.nat(7),
    team: fc.constantFrom("a", "b", "c"),
    bytes: fc.oneof(fc.nat(20_000), fc.nat(allBytes)),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const budget = new ByteBudget(bytesMax);
      const all: { reservation: TeamReservation; team: string; bytes: number; isOver: boolean }[] = [];
      const counted = ({ bytes }: { bytes: number }) =>
        2 * bytes > bounds.uncountedRunBytes ? 2 * bytes : 0;
      const sumOf = (team?: string) =>
        all.reduce((sum, one) => (team === undefined || one.team === team ? sum + counted(one) : sum), 0);
      for (const { what, at, team, bytes } of steps) {
        const one = all[at % Math.max(1, all.length)];
        if (what === "open") all.push({ reservation: budget.open(team), team, bytes: 0, isOver: false });
        if (!one) continue;
        if (what === "reserve" || what === "reserveUpTo") {
          const wanted = what === "reserve" ? one.bytes + bytes : Math.max(one.bytes, bytes);
          if (one.reservation[what](bytes) && !one.isOver) one.bytes = wanted;
        }
        if (what === "release") {
          one.reservation.release();
          one.bytes = 0;
          one.isOver = true;
        }
        expect(budget.bytes).toBe(sumOf());
        expect(budget.bytes).toBeLessThanOrEqual(bytesMax);
        expect(sumOf(one.team)).toBeLessThanOrEqual(bytesMax / 2);
      }
      for (const { reservation } of all) reservation.release();
      for (const { reservation } of all) reservation.release();
      expect(budget.bytes).toBe(0);
    }),
  );
});
