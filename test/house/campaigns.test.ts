import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { type Mutant, mutants } from "../campaigns/mutants.ts";
import { readRecords, withCampaignTable } from "../harness/campaign-records.ts";
import { campaigns } from "../harness/campaigns.ts";
import { docPages } from "../harness/doc-page.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");
const names = campaigns.map(({ name }) => name);

test("every file of test/campaigns is a part of a campaign, and every file of a campaign exists", () => {
  const named = campaigns.flatMap(({ files }) => files);
  const there = globSync("test/campaigns/*.test.ts", { cwd: root });
  expect(there.filter((file) => !named.includes(file))).toEqual([]);
  expect(named.filter((file) => !existsSync(join(root, file)))).toEqual([]);
});

test("a campaign has a name of its own, and a size with a unit or none", () => {
  expect(new Set(names).size).toBe(names.length);
  for (const { name, unit, size, short } of campaigns) {
    expect([size === undefined, short === undefined], name).toEqual(Array(2).fill(unit === undefined));
    expect(short ?? 0, name).toBeLessThanOrEqual(size ?? 0);
  }
});

test("each fault of the mutants is told apart, its text stands in its file once, and its test file exists", () => {
  const faults = mutants.map(({ fault }) => fault);
  expect(faults.filter((fault, n) => faults.indexOf(fault) !== n)).toEqual([]);
  const times = ({ file, text }: Mutant) => read(file).split(text).length - 1;
  expect(mutants.filter((each) => times(each) !== 1).map(({ fault }) => fault)).toEqual([]);
  expect(mutants.filter((each) => !existsSync(join(root, each.test))).map(({ test }) => test)).toEqual([]);
});

test("each campaign that a page runs exists", () => {
  const run = docPages().flatMap((page) =>
    [...read(page).matchAll(/npm run campaign -- ([\w-]+)/g)].map(([, name = ""]) => name),
  );
  expect(run.length).toBeGreaterThan(10);
  expect(run.filter((name) => name !== "all" && !names.includes(name))).toEqual([]);
});

test("each promise of docs/reliability.md names campaigns and files that exist", () => {
  const rows = [...read("docs/reliability.md").matchAll(/^\| \*\*.*\| (.+) \|$/gm)];
  const commands = rows.map(([, cell = ""]) =>
    [...cell.matchAll(/`([\w./-]+)[^`]*`/g)].map(([, name]) => name),
  );
  expect(commands.length).toBeGreaterThan(30);
  expect(rows.filter((_, at) => commands[at]?.length === 0).map(([row]) => row)).toEqual([]);
  const exists = (name = "") => (name.includes("/") ? existsSync(join(root, name)) : names.includes(name));
  expect(commands.flat().filter((name) => !exists(name))).toEqual([]);
});

test("the page's table of campaigns is fresh (if it is not, run `npm run docs`)", () => {
  const page = read("docs/reliability.md");
  expect(withCampaignTable(page, readRecords())).toBe(page);
  expect(Object.keys(readRecords()).filter((name) => !names.includes(name))).toEqual([]);
});

test("a campaign in a clone with changes is marked as such in the table", () => {
  const facts = { commit: "abc1234", date: "2026-11-24", size: "3 kills", load: 0.5, cores: 2 };
  const found = { passed: 1, failed: 0, seconds: 9, figures: { lost: "0", "start to ready": "1 ms" } };
  const page = "<!-- campaigns:start -->\n<!-- campaigns:end -->\n";
  const rowOf = (isDirty: boolean) =>
    withCampaignTable(page, { kills: { ...facts, ...found, isDirty } }).split("\n")[3];
  expect(rowOf(true)).toBe(
    "| `kills` | 3 kills | `abc1234` with changes, 2026-11-24, load 0.5 on 2 cores | 1 passed, 0 failed, 9 s | lost: 0; start to ready: 1 ms |",
  );
  expect(rowOf(false)).toBe(rowOf(true)?.replace(" with changes", ""));
});
