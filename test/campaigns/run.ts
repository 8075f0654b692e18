/**
 * `npm run campaign`: lists the campaigns. `npm run campaign -- <name>` runs one, and `-- all` each
 * after the other, with `--short` briefly. Without `--short` or with `--record` it writes what was
 * found into docs/campaigns.json and the table of docs/reliability.md.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeRecord } from "../harness/campaign-records.ts";
import { type Campaign, campaigns, wholeNumber } from "../harness/campaigns.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

function main(): void {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { size: { type: "string" }, short: { type: "boolean" }, record: { type: "boolean" } },
  });
  const [name] = positionals;
  if (name === undefined) {
    list();
    return;
  }
  const chosen = name === "all" ? campaigns : campaigns.filter((each) => each.name === name);
  if (chosen.length === 0) throw new Error(`There is no campaign ${name}. \`npm run campaign\` lists them.`);
  if (values.size !== undefined && chosen.some(({ unit }) => unit === undefined))
    throw new Error(`--size is for a campaign that has one; ${name} has none.`);
  const failed = chosen.filter((campaign) => {
    const size = values.size === undefined ? undefined : wholeNumber(values.size);
    return !run(campaign, {
      size: size ?? (values.short ? campaign.short : campaign.size),
      isRecorded: values.record ?? !values.short,
    });
  });
  if (failed.length > 0) process.exitCode = 1;
  say(`${chosen.length - failed.length} campaigns held, ${failed.length} did not`);
  for (const each of failed) say(`  ${each.name}`);
}

function list(): void {
  for (const { name, attacks, unit, size, short } of campaigns) {
    const sizes = unit === undefined ? "" : ` (${unit}: ${size}, short ${short})`;
    say(`${name.padEnd(20)} ${attacks}${sizes}`);
  }
}

/** Whether it held: a test passed, and none failed or was left out. */
function run(
  campaign: Campaign,
  { size, isRecorded }: { readonly size: number | undefined; readonly isRecorded: boolean },
): boolean {
  const { name, files, unit } = campaign;
  const sizeInWords = size === undefined ? "" : `${size.toLocaleString("en-US")} ${unit}`;
  say(`--- ${name}: ${sizeInWords}`);
  const folder = mkdtempSync(join(tmpdir(), "keyrun-campaign-"));
  const [report, figures] = [join(folder, "report.json"), join(folder, "figures")];
  const commit = git("rev-parse", "--short", "HEAD");
  const isDirty =
    git("status", "--porcelain", "--", ".", ":!docs/campaigns.json", ":!docs/reliability.md") !== "";
  const [load = 0] = loadavg();
  const beganMs = performance.now();
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  spawnSync(process.execPath, [vitest, "run", ...files, "--maxWorkers=1", ...reporters], {
    ...{ cwd: root, stdio: "inherit" },
    env: {
      ...process.env,
      KEYRUN_TEST_FIGURES: figures,
      ...(size !== undefined && { KEYRUN_TEST_SIZE: `${size}` }),
    },
  });
  const seconds = Math.round((performance.now() - beganMs) / 1_000);
  const { passed, failed, leftOut } = countsOf(report);
  const found = figuresOf(figures);
  rmSync(folder, { recursive: true });
  say(`${name}: ${passed} passed, ${failed} failed, ${leftOut} left out, ${seconds} s`);
  if (isRecorded) {
    const facts = { commit, isDirty, date: new Date().toISOString().slice(0, 10), size: sizeInWords };
    const machine = { load: Math.round(load * 10) / 10, cores: availableParallelism() };
    writeRecord(name, { ...facts, ...machine, passed, failed: failed + leftOut, seconds, figures: found });
  }
  return passed > 0 && failed + leftOut === 0;
}

/** Without a report, or with a file that can't be read, a test counts as failed. */
function countsOf(report: string): { passed: number; failed: number; leftOut: number } {
  if (!existsSync(report)) return { passed: 0, failed: 1, leftOut: 0 };
  const told = JSON.parse(readFileSync(report, "utf8"));
  const failed = told.numFailedTests as number;
  return {
    passed: told.numPassedTests,
    failed: failed === 0 && !told.success ? 1 : failed,
    leftOut: told.numPendingTests + told.numTodoTests,
  };
}

/** The figures by their names. One that was told twice has its place behind its name. */
function figuresOf(file: string): Record<string, string> {
  const found: Record<string, string> = {};
  const lines = existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : [];
  for (const line of lines) {
    const [name, words] = JSON.parse(line) as [string, string];
    let place = 1;
    const nameOf = () => (place === 1 ? name : `${name} (${place})`);
    while (found[nameOf()] !== undefined) place += 1;
    found[nameOf()] = words;
  }
  return found;
}

function git(...args: string[]): string {
  return execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim();
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

main();
