import fc from "fast-check";
import { expect, test } from "vitest";
import { createConnectionCap } from "#src/server/connection/connections.ts";

const [a, b] = ["192.0.2.1", "2001:db8::1"];

test("an address never has more connections than the bound, and none is refused below it", () => {
  const steps = fc.array(fc.record({ address: fc.constantFrom(a, b), opens: fc.boolean() }));
  fc.assert(
    fc.property(steps, (all) => {
      const cap = createConnectionCap(3, () => false);
      const open = { [a]: 0, [b]: 0 };
      for (const { address, opens } of all) {
        if (opens) {
          const admitted = cap.admit(address);
          expect(admitted).toBe(open[address]! < 3);
          if (admitted) open[address]! += 1;
        } else if (open[address]! > 0) {
          cap.release(address);
          open[address]! -= 1;
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

test("all addresses of one IPv6 /64 network share one bound, for admitting and releasing", () => {
  const cap = createConnectionCap(2, (address) => address === "::1");
  const admitted = ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:0:3::", "2001:db8:0:1::1"].map(cap.admit);
  expect(admitted).toEqual([true, true, false, true]);
  cap.release("2001:db8::1");
  expect([cap.admit("2001:db8::4"), cap.admit("2001:db8::5")]).toEqual([true, false]);
});

test("the release of an exempt address frees no place of its network", () => {
  const cap = createConnectionCap(1, (address) => address === "::1");
  expect([cap.admit("::1"), cap.admit("::2")]).toEqual([true, true]);
  cap.release("::1");
  expect(cap.admit("::3")).toBe(false);
});
