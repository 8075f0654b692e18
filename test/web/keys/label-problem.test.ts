import fc from "fast-check";
import { expect, test } from "vitest";
import { readLabel } from "#src/base/fields.ts";
import { bounds as serverBounds } from "#src/bounds.ts";
import { Refusal } from "#src/refusal/refusal.ts";
import { bounds } from "../../../web/bounds.ts";
import { labelLength, labelProblem } from "../../../web/keys/form/label-problem.ts";

test("the screen has the server's bound for a label", () => {
  expect(bounds.labelCodePointsMax).toBe(serverBounds.labelCodePointsMax);
});

test("the screen refuses exactly the characters that the server refuses", () => {
  let refused = 0;
  for (let unit = 0; unit <= 0xffff; unit += 1) {
    const label = `a${String.fromCharCode(unit)}b`;
    const refuses = serverRefuses(label);
    if (refuses) refused += 1;
    if (refuses !== (labelProblem(label) !== null)) expect.fail(`differs at U+${unit.toString(16)}`);
  }
  // The class Cc, two separators, nine direction characters, and the lone surrogates.
  expect(refused).toBe(65 + 2 + 9 + 2_048);
});

test("the screen refuses exactly the lengths that the server refuses", () => {
  const label = fc.string({ unit: fc.constantFrom("a", "👩", " "), minLength: 120, maxLength: 140 });
  fc.assert(
    fc.property(label, (text) => {
      expect(labelProblem(text) !== null).toBe(serverRefuses(text));
    }),
  );
});

test("a label is counted in code points, after it is trimmed", () => {
  expect(labelLength("  👩‍💻 ")).toBe(3);
  expect(labelProblem("👩".repeat(128))).toBeNull();
  expect(labelProblem("👩".repeat(129))).toContain("128");
});

function serverRefuses(label: string): boolean {
  try {
    readLabel(label, "label");
    return false;
  } catch (thrown) {
    if (thrown instanceof Refusal) return true;
    throw thrown;
  }
}
