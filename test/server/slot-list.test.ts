import fc from "fast-check";
import { expect, test } from "vitest";
import { SlotList } from "#src/server/drain.ts";

test("a slot list holds exactly the members that were added and not removed, in as few places as were ever needed at once", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constant("add" as const), fc.nat())), (commands) => {
      const slots = new SlotList<object>();
      const here = new Map<object, number>();
      let most = 0;
      for (const command of commands) {
        if (command === "add") {
          const member = {};
          here.set(member, slots.add(member));
        } else {
          const [member, place] = [...here][command % Math.max(1, here.size)] ?? [];
          if (member && place !== undefined) {
            slots.remove(place);
            here.delete(member);
          }
        }
        most = Math.max(most, here.size);
        expect(new Set(slots)).toEqual(new Set(here.keys()));
        for (const place of here.values()) expect(place).toBeLessThan(most);
      }
    }),
  );
});
