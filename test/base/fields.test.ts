import { expect, test } from "vitest";
import { foldCase, readEmail, readLabel, readResourceId } from "#src/base/fields.ts";
import { cutPage, readPage } from "#src/base/page.ts";

test("an id is a lower-case letter, then up to 62 letters, digits and hyphens", () => {
  expect(readResourceId("a", "team_id")).toBe("a");
  expect(readResourceId(`a${"9-".repeat(31)}`, "team_id")).toHaveLength(63);
  for (const bad of ["", "A", "9a", "-a", "a_b", "a.b", "é", `a${"b".repeat(63)}`, "a\n"]) {
    expect(() => readResourceId(bad, "team_id")).toThrow(/^team_id must be/);
  }
});

test("a label is trimmed and counted in code points, not UTF-16 units", () => {
  expect(readLabel("  ci-deploy\n", "label")).toBe("ci-deploy");
  expect(readLabel("🔑".repeat(128), "label")).toBe("🔑".repeat(128));
  expect(() => readLabel("🔑".repeat(129), "label")).toThrow(/at most 128/);
  expect(() => readLabel("x".repeat(10_000_000), "label")).toThrow(/at most 128/);
});

test("a label keeps joined emoji and refuses what could mislead in a list", () => {
  expect(readLabel("👩‍🚀 نص", "label")).toBe("👩‍🚀 نص");
  for (const bad of ["a\tb", "a\u0000b", "a\u2028b", "a\u202eb", "a\u2066b", "a\ud800b", "a\u0085b"]) {
    expect(() => readLabel(bad, "label")).toThrow(/must not hold/);
  }
});

test("an e-mail is compared in lower case, and what can't be one is refused", () => {
  expect(readEmail(" Ada@Example.COM ", "email")).toBe("ada@example.com");
  expect(readEmail("owner@localhost", "email")).toBe("owner@localhost");
  for (const bad of [
    "",
    "ada",
    "@x",
    "ada@",
    "a b@c",
    "a@b@c",
    `${"a".repeat(65)}@b`,
    `a@${"b".repeat(300)}`,
  ]) {
    expect(() => readEmail(bad, "email")).toThrow(/e-mail/);
  }
});

test("page sizes: 0 is 50, more than 100 is 100, negative is refused", () => {
  expect(readPage({ pageSize: 0, pageToken: "" }, "s")).toEqual({ limit: 50 });
  expect(readPage({ pageSize: 1000, pageToken: "" }, "s")).toEqual({ limit: 100 });
  expect(() => readPage({ pageSize: -1, pageToken: "" }, "s")).toThrow(/page_size/);
});

test("a page token goes on where its page ended, in its own list alone", () => {
  const { items, nextPageToken } = cutPage(["a", "b", "c"], { limit: 2 }, "teams", (item) => item);
  expect(items).toEqual(["a", "b"]);
  expect(readPage({ pageSize: 2, pageToken: nextPageToken }, "teams")).toEqual({ limit: 2, after: "b" });
  for (const [token, scope] of [
    [nextPageToken, "apps"],
    ["nonsense", "teams"],
    ["x".repeat(5000), "teams"],
  ] as const) {
    expect(() => readPage({ pageSize: 2, pageToken: token }, scope)).toThrow(/page_token/);
  }
});

test("the last page has no token, also when it is exactly full", () => {
  expect(cutPage(["a", "b"], { limit: 2 }, "teams", (item) => item).nextPageToken).toBe("");
});

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
