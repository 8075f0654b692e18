import { cpSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { redactKeyValue } from "#src/keys/key-value.ts";
import { figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { repository } from "../harness/keyrun-process.ts";
import {
  githubPattern,
  gitleaks,
  hasHyperscan,
  hyperscan,
  outputOf,
  patternFiles,
  trufflehog,
} from "../harness/leak-scanners.ts";
import { newKeyValue } from "../harness/seeded-leaks.ts";

// Ordinary text and code: Keyrun's own but its tests, which hold texts like keys on purpose, and
// packages that every clone has. 50 MB.
const ownFolders = ["bench", "docs", "examples", "gen", "proto", "src", "web"];
const packages = [
  "@redis",
  "@types",
  "axe-core",
  "mongodb",
  "playwright-core",
  "react-dom",
  "typescript",
  "zod",
];
const usual = [...ownFolders, ...packages.map((name) => `node_modules/${name}`)];
const bytesMin = 40_000_000;

const given = process.env.KEYRUN_TEST_ORDINARY_FOLDERS;
const sources = (given?.split(delimiter) ?? usual).map((path) => resolve(repository, path));

const folders = tempFolders();
const folder = folders.create();
// Each scanner must find this one key, and none beside it.
const planted = newKeyValue();
const plantedPath = join(folder, "planted.txt");

/** A copy: gitleaks leaves out what is in a folder `node_modules`. */
beforeAll(() => {
  for (const [n, source] of sources.entries()) {
    mkdirSync(join(folder, `${n}`));
    cpSync(source, join(folder, `${n}`), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => isPlain(path),
    });
  }
  writeFileSync(plantedPath, `KEYRUN_API_KEY=${planted}\n`);
}, 600_000);

function isPlain(path: string): boolean {
  if (!existsSync(path)) return false;
  const kind = statSync(path);
  return kind.isFile() || kind.isDirectory();
}

test("`keys scan` finds the planted key in much ordinary text, and nothing else", {
  timeout: 600_000,
}, async () => {
  const { code, stdout } = await runCommand(["keys", "scan", "--json", folder]);
  const { findings, files, bytes, unreadable } = JSON.parse(stdout);
  figure("files of ordinary text", files);
  figure("their bytes", bytes);
  expect(findings).toEqual([{ path: plantedPath, line: 1, redactedValue: redactKeyValue(planted) }]);
  expect([code, unreadable, readdirSync(folder).length]).toEqual([1, 0, sources.length + 1]);
  expect(bytes).toBeGreaterThan(given ? 0 : bytesMin);
});

test.skipIf(!hasHyperscan)(
  "the parts of GitHub's form do so in Hyperscan",
  { timeout: 600_000 },
  async () => {
    const { bytes, matches } = await hyperscan(githubPattern(), folder);
    expect(matches).toEqual([{ path: plantedPath, text: `=${planted}\n` }]);
    expect(bytes).toBeGreaterThan(given ? 0 : bytesMin);
  },
);

test.skipIf(gitleaks === undefined)("gitleaks does so with its file", { timeout: 600_000 }, async () => {
  const args = ["dir", "--config", patternFiles.gitleaks, "--enable-rule", "keyrun-api-key"];
  const report = ["--no-banner", "--report-format", "json", "--report-path", "-"];
  const { stdout, out } = await outputOf(gitleaks!, [...args, ...report, folder]);
  figure("gitleaks", `${/scanned [^.]*\([^)]*\)/.exec(out)?.[0]}`);
  const found: { File: string; Secret: string }[] = JSON.parse(stdout);
  expect(found.map(({ File, Secret }) => [File, Secret])).toEqual([[plantedPath, planted]]);
});

if (trufflehog !== undefined) {
  const program = trufflehog;
  test("TruffleHog does so with its file", { timeout: 600_000 }, async () => {
    const only = ["--include-detectors", "CustomRegex", "--no-verification", "--no-update", "--json"];
    const config = ["--config", patternFiles.trufflehog];
    const { stdout } = await outputOf(program, ["filesystem", folder, ...config, ...only]);
    const found = stdout.split("\n").filter((line) => line.includes("SourceMetadata"));
    expect(found.map((line) => JSON.parse(line).Raw)).toEqual([planted]);
  });
}
