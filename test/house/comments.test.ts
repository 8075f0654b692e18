import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const columnsMax = 100;
const files = globSync(
  ["{src,packages,web,test,bench,examples,bin}/**/*.{ts,tsx,mjs,css}", "proto/keyrun/**/*.proto"],
  { cwd: root, exclude: ["**/dist/**", "**/gen/**"] },
);

/** The lines of a file that are comments as a whole, with their numbers. */
function commentLines(file: string): { at: string; text: string }[] {
  const lines = readFileSync(join(root, file), "utf8").split("\n");
  return lines
    .map((text, index) => ({ at: `${file}:${index + 1}`, text }))
    .filter(({ text }) => /^\s*(\/\/|\/\*|\* |\*\/)/.test(text));
}

const comments = files.flatMap(commentLines);

test("the comments are read: those of every folder", () => {
  expect(files.length).toBeGreaterThan(500);
  expect(comments.length).toBeGreaterThan(3_000);
});

test(`a line of a comment has at most ${columnsMax} columns`, () => {
  const long = comments.filter(({ text }) => text.length > columnsMax);
  expect(long.map(({ at, text }) => `${at} has ${text.length}: wrap it.`)).toEqual([]);
});

/** Words that this house once made up, or that have to be decoded, each with what to write. */
const houseWords: readonly [RegExp, string][] = [
  [/\bdoors?\b/i, "handler, or entry"],
  [/\b(whoever|nobody's|told of|hears of)\b/i, "the caller, the operator or the app as the subject"],
  [/\b(roster|entrance)\b/i, "slot list, route"],
];

test("a comment uses the words of the field", () => {
  const found = comments.flatMap(({ at, text }) =>
    houseWords.flatMap(([word, better]) => (word.test(text) ? [`${at}: write ${better}.`] : [])),
  );
  expect(found).toEqual([]);
});
