import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { campaigns } from "../harness/campaigns.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8").replaceAll("**", "");

/** The pages that promise something, and which lines of each are promises. */
const pages = [
  { name: "README", path: "README.md", from: "# Keyrun", to: "## Quick start", line: /^\| \*\*.*/gm },
  {
    ...{ name: "SECURITY", path: "SECURITY.md", from: "## What is promised", to: "## What is logged" },
    line: /^- .*(?:\n {2}.*)*/gm,
  },
  {
    name: "reliability",
    path: "docs/reliability.md",
    from: "## Keys",
    to: "## The last",
    line: /^\| \*\*.*/gm,
  },
  {
    ...{ name: "fleet", path: "docs/fleet.md", from: "# Several instances", to: "## Who is there" },
    line: /^(?:- \*\*|\| an? |\| MongoDB |\| Redis ).*/gm,
  },
].map(({ name, path, from, to, line }) => {
  const text = readFileSync(join(root, path), "utf8");
  const part = text.slice(text.indexOf(from), text.indexOf(to));
  return { name, text: plain(text), promises: [...part.matchAll(line)].map(([promise]) => plain(promise)) };
});

/** Pages that say more of what the others promise. */
const details = ["commands", "api", "grpc", "operations"].map((name) => ({
  name,
  text: plain(readFileSync(join(root, `docs/${name}.md`), "utf8")),
}));

/** Without marks, and on one line: a row quotes the words alone. */
function plain(text: string): string {
  return text.replaceAll("**", "").replace(/\s+/g, " ");
}

const rows = [...read("test/README.md").matchAll(/^\| (.+) \| `(.+\.test\.ts)` "(.+)" \|(.*)\|$/gm)].map(
  ([, promise = "", file = "", title = "", attacks = ""]) => ({ promise, file, title, attacks }),
);
const quotesOf = (page: string) =>
  rows.flatMap(({ promise }) =>
    [...promise.matchAll(new RegExp(`${page} "([^"]+)"`, "g"))].map(([, words = ""]) => words),
  );

test("each promise of the pages has a row in the map, which quotes it", () => {
  for (const { name, promises } of pages) {
    expect(promises.length, name).toBeGreaterThan(2);
    const quotes = quotesOf(name);
    expect(promises.filter((promise) => !quotes.some((words) => promise.includes(words)))).toEqual([]);
  }
});

test("each row quotes a page, as it stands there", () => {
  expect(rows.length).toBeGreaterThan(50);
  for (const { name, text } of [...pages, ...details]) {
    expect(quotesOf(name).filter((words) => !text.includes(words))).toEqual([]);
  }
  const names = [...pages, ...details].map(({ name }) => name).join("|");
  expect(rows.filter(({ promise }) => !new RegExp(`(?:${names}) "`).test(promise))).toEqual([]);
});

test("each row names a test that exists, by how its title begins", () => {
  const hasTest = (file: string, title: string) => {
    const text = read(file.startsWith("packages/") ? file : `test/${file}`);
    return ['"', "`"].some((quote) => text.includes(`${quote}${title}`));
  };
  expect(
    rows.filter(({ file, title }) => !hasTest(file, title)).map(({ file, title }) => [file, title]),
  ).toEqual([]);
});

test("each row names campaigns that exist", () => {
  const named = rows.flatMap(({ attacks }) => [...attacks.matchAll(/`([\w-]+)`/g)].map(([, name]) => name));
  const existing = campaigns.map(({ name }) => name);
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((name = "") => !existing.includes(name))).toEqual([]);
});
