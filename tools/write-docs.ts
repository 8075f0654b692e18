/**
 * `npm run docs`: writes `.env.example` and docs/settings.md from the settings in `known.ts`, the
 * table in docs/errors.md from the reasons, and that in docs/service-tokens.md from the policy. With
 * `--check` it writes nothing, and fails if one of them is stale.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  renderEnvExample,
  renderRefusalsTable,
  renderRolesTable,
  renderSettingsTable,
  withTable,
} from "./docs-tables.ts";

const checks = process.argv.includes("--check");

keep(".env.example", renderEnvExample());
keepTable("docs/settings.md", "settings", renderSettingsTable());
keepTable("docs/errors.md", "refusals", renderRefusalsTable());
keepTable("docs/service-tokens.md", "roles", renderRolesTable());

function keepTable(name: string, mark: string, table: string): void {
  const filled = withTable(readIfThere(name) ?? "", mark, table);
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
  return fileURLToPath(new URL(`../${name}`, import.meta.url));
}
