import fc from "fast-check";
import { expect, test } from "vitest";
import { Roster } from "#src/server/roster.ts";

test("a roster has whom it was given and not taken, and no more places than were ever needed at once", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constant("add" as const), fc.nat())), (commands) => {
      const roster = new Roster<object>();
      const here = new Map<object, number>();
      let most = 0;
      for (const command of commands) {
        if (command === "add") {
          const member = {};
          here.set(member, roster.add(member));
        } else {
          const [member, place] = [...here][command % Math.max(1, here.size)] ?? [];
          if (member && place !== undefined) {
            roster.remove(place);
            here.delete(member);
          }
        }
        most = Math.max(most, here.size);
        expect(new Set(roster)).toEqual(new Set(here.keys()));
        for (const place of here.values()) expect(place).toBeLessThan(most);
      }
    }),
  );
});
