import fc from "fast-check";
import { expect, test } from "vitest";
import { createConnectionCap } from "#src/server/connection-cap.ts";

test("an address never has more connections than it may, and none is refused below that", () => {
  const steps = fc.array(fc.record({ address: fc.constantFrom("a", "b"), opens: fc.boolean() }));
  fc.assert(
    fc.property(steps, (all) => {
      const cap = createConnectionCap(3, () => false);
      const open = { a: 0, b: 0 };
      for (const { address, opens } of all) {
        if (opens) {
          const admitted = cap.admit(address);
          expect(admitted).toBe(open[address as "a"] < 3);
          if (admitted) open[address as "a"] += 1;
        } else if (open[address as "a"] > 0) {
          cap.release(address);
          open[address as "a"] -= 1;
        }
      }
    }),
  );
});

test("an exempt address has no bound", () => {
  const cap = createConnectionCap(1, (address) => address === "::1");
  for (let opened = 0; opened < 10; opened += 1) expect(cap.admit("::1")).toBe(true);
  cap.release("::1");
  expect([cap.admit("192.0.2.1"), cap.admit("192.0.2.1")]).toEqual([true, false]);
});
