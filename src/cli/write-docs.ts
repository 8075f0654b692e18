/**
 * `npm run docs` writes .env.example and the README's table of settings from the settings themselves, and the table
 * of refusals in docs/errors.md from theirs. With `--check` it writes nothing, and fails where one of them is stale.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { renderEnvExample, withSettingsTable } from "../settings/document.ts";
import { withRefusalsTable } from "./refusals-document.ts";

const checks = process.argv.includes("--check");

keep(".env.example", renderEnvExample());
keepTable("README.md", withSettingsTable);
keepTable("docs/errors.md", withRefusalsTable);

function keepTable(name: string, withTable: (text: string) => string | undefined): void {
  const filled = withTable(readIfThere(name) ?? "");
  if (filled === undefined) {
    console.error(`${name} has no place for its table.`);
    process.exitCode = 1;
  } else {
    keep(name, filled);
  }
}

function keep(name: string, wanted: string): void {
  if (readIfThere(name) === wanted) return;
  if (checks) {
    console.error(`${name} is stale: run \`npm run docs\` and commit it.`);
    process.exitCode = 1;
  } else {
    writeFileSync(pathOf(name), wanted);
    console.log(`${name} is written.`);
  }
}

function readIfThere(name: string): string | undefined {
  return existsSync(pathOf(name)) ? readFileSync(pathOf(name), "utf8") : undefined;
}

function pathOf(name: string): string {
  return fileURLToPath(new URL(`../../${name}`, import.meta.url));
}
