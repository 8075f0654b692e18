import fc from "fast-check";
import { expect, test } from "vitest";
import { cutText } from "#src/refusal/refusal.ts";

const bytesInJson = (text: string) => Buffer.byteLength(JSON.stringify(text)) - 2;

test.each([
  ["a plain text", "a".repeat(10), "a".repeat(10)],
  ["a plain text that is too long", "a".repeat(11), `${"a".repeat(7)}…`],
  ["a text of several bytes a character", "éééééé", "ééé…"],
  ["a pair of surrogates, which is not split", "😀😀😀", "😀…"],
  ["control characters, of six bytes each", "\0\0", "\0…"],
  ["half of a pair of surrogates", "a\ud800", "a\ufffd"],
  ["nothing", "", ""],
])("%s is cut to ten bytes", (_, text, cut) => {
  expect(cutText(text, 10)).toBe(cut);
});

test("whatever the text is, the cut one is within its bound and well-formed, and a text within it stays", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary", maxLength: 60 }),
      fc.integer({ min: 9, max: 80 }),
      (text, max) => {
        const cut = cutText(text, max);
        expect(bytesInJson(cut)).toBeLessThanOrEqual(max);
        expect(cut.isWellFormed()).toBe(true);
        if (bytesInJson(text) <= max) expect(cut).toBe(text);
        else expect(text.startsWith(cut.slice(0, -1))).toBe(cut.endsWith("…"));
      },
    ),
  );
});
