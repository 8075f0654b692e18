import { expect, test } from "vitest";
import { foldCase } from "#src/base/fold-case.ts";

test("a letter and its folded form are one letter to a comparison that ignores case, for all of Unicode", () => {
  const others: string[] = [];
  for (let code = 0; code <= 0x10ffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const letter = String.fromCodePoint(code);
    const folded = foldCase(letter);
    if (folded === letter) continue;
    if (!new RegExp(`^\\u{${code.toString(16)}}$`, "iu").test(folded)) others.push(letter);
  }
  // The dotless i has the upper case I, which people type for it.
  expect(others).toEqual(["ı"]);
});

test.each([
  ["CI-Deploy", "ci-deploy"],
  ["ΣΑΣ σας", "σασ σασ"],
  ["Straße STRAẞE", "straße straße"],
  ["ÄÖÜ İ", "äöü İ"],
  ["👩‍💻 𐐀", "👩‍💻 𐐨"],
])("%s becomes %s, with as many code points", (text, folded) => {
  expect(foldCase(text)).toBe(folded);
  expect([...foldCase(text)]).toHaveLength([...text].length);
});
