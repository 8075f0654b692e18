import fc from "fast-check";
import { expect, test } from "vitest";
import { createRunSlots } from "#src/run/run-slots.ts";

test("runs stay within the bound of their app and of all apps, and no run below both bounds is refused", () => {
  const step = fc.record({ app: fc.constantFrom("a", "b", "c"), starts: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const slots = createRunSlots({ appRunsMax: 3, runsMax: 5, retryAfterMs: 1_000 });
      const running = new Map<string, (() => void)[]>([
        ["a", []],
        ["b", []],
        ["c", []],
      ]);
      for (const { app, starts } of steps) {
        const ofApp = running.get(app)!;
        const all = [...running.values()].flat().length;
        if (!starts) ofApp.pop()?.();
        else if (ofApp.length < 3 && all < 5) ofApp.push(slots.acquire(app));
        else expect(() => slots.acquire(app)).toThrow(expect.objectContaining({ reason: "APP_BUSY" }));
      }
    }),
  );
});
