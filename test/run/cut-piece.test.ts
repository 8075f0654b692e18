import fc from "fast-check";
import { expect, test } from "vitest";
import { cutPiece } from "#src/run/app-stream.ts";

function cutAll(text: string, bytesMax: number): string[] {
  const cuts: string[] = [];
  for (let at = 0; at < text.length; at += cuts.at(-1)!.length) cuts.push(cutPiece(text, at, bytesMax));
  return cuts;
}

test("the cuts of any text are the text, well-formed, within the bound, and no more than are needed", () => {
  const texts = fc.string({ unit: "grapheme", maxLength: 60 });
  fc.assert(
    fc.property(texts, fc.integer({ min: 4, max: 40 }), (text, bytesMax) => {
      const cuts = cutAll(text, bytesMax);
      expect(cuts.join("")).toBe(text);
      for (const [index, cut] of cuts.entries()) {
        expect(cut.isWellFormed()).toBe(true);
        expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytesMax);
        const next = String.fromCodePoint(
          ...[...(cuts[index + 1] ?? "")].slice(0, 1).map((c) => c.codePointAt(0)!),
        );
        if (next !== "") expect(Buffer.byteLength(cut + next)).toBeGreaterThan(bytesMax);
      }
    }),
    { numRuns: 500 },
  );
});

test("a text that just fits is not cut", () => {
  expect(cutAll("ä".repeat(5), 10)).toEqual(["ä".repeat(5)]);
  expect(cutAll("ä".repeat(5), 9)).toEqual(["ä".repeat(4), "ä"]);
});
