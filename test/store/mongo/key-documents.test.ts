import fc from "fast-check";
import { expect, test } from "vitest";
import { activeSlot, endedSlot, freeSlots, slotNumber } from "#src/store/mongo/key-documents.ts";

const slots = fc.uniqueArray(fc.integer({ min: 0, max: 12 })).map((used) => new Set(used));
const activeMax = fc.integer({ min: 0, max: 8 });

test("no slot is free where the team has all the active keys that it may have; with fewer, one is", () => {
  fc.assert(
    fc.property(slots, activeMax, (used, max) => {
      expect(freeSlots(used, max)).toHaveLength(Math.max(0, max - used.size));
    }),
  );
});

test("free slots are the lowest that are not used", () => {
  expect(freeSlots(new Set([0, 2, 9]), 6)).toEqual([1, 3, 4]);
  expect(freeSlots(new Set(), 3)).toEqual([0, 1, 2]);
});

test("inserts that choose from outdated lists never make more active keys than the team may have", () => {
  // The commands: a process reads the list, takes a slot from the list that it last read, or
  // revokes a key.
  const step = fc.record({
    kind: fc.constantFrom("look", "take", "revoke"),
    who: fc.nat(2),
    choice: fc.nat(20),
  });
  fc.assert(
    fc.property(slots, activeMax, fc.array(step, { maxLength: 60 }), (before, max, steps) => {
      const used = new Set(before);
      const seen = new Map<number, number[]>();
      for (const { kind, who, choice } of steps) {
        const free = seen.get(who) ?? [];
        if (kind === "look") seen.set(who, freeSlots(used, max));
        if (kind === "take" && free.length > 0) used.add(free[choice % free.length]!);
        if (kind === "revoke" && used.size > 0) used.delete([...used][choice % used.size]!);
        expect(used.size).toBeLessThanOrEqual(Math.max(max, before.size));
      }
    }),
    { numRuns: 2_000 },
  );
});

test("an active key's slot holds its number, and a revoked key has no such slot", () => {
  expect(slotNumber(activeSlot("team-7", 12))).toBe(12);
  expect(endedSlot("k")).not.toBe(endedSlot("l"));
});
