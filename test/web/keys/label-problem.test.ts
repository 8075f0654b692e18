import fc from "fast-check";
import { expect, test } from "vitest";
import { readLabel } from "#src/base/fields.ts";
import { bounds as serverBounds } from "#src/bounds.ts";
import { Refusal } from "#src/refusal/refusal.ts";
import { bounds } from "../../../web/bounds.ts";
import { labelLength, labelProblem } from "../../../web/keys/form/label-problem.ts";

const newKeyValue = `svc_${"0123456789abcdefghjkmnpq"}.${"aB3".repeat(16)}x`;
const signInLink = `http://localhost:8080/sign-in/link#code=${"aB3_-".repeat(9).slice(0, 43)}`;

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

test.each([newKeyValue, `my key: ${newKeyValue}!`, newKeyValue.replace(".", "%2E"), signInLink])(
  "the screen refuses a label that holds a secret, as the server does, in words without it",
  (label) => {
    expect(serverRefuses(label)).toBe(true);
    expect(labelProblem(label)).toMatch(/^The label holds an API key or a sign-in link\. [^_]*$/);
  },
);

test.each([newKeyValue.slice(0, 40), newKeyValue.slice(4, 28), "#code=review"])(
  "what is no whole secret is accepted by both: %s",
  (label) => {
    expect([serverRefuses(label), labelProblem(label)]).toEqual([false, null]);
  },
);

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
