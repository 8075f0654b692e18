import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { environment } from "#src/settings/known.ts";
import { readSettings } from "#src/settings/read-settings.ts";
import { renderEnvExample, renderSettingsTable, withTable } from "#tools/docs-tables.ts";

const names = Object.keys(environment.shape);

test(".env.example in the repository is the one that the settings give", () => {
  expect(readFileSync(new URL("../../.env.example", import.meta.url), "utf8")).toBe(renderEnvExample());
});

test(".env.example names every setting once, and changes nothing before a line is uncommented", () => {
  const lines = renderEnvExample().split("\n");
  for (const name of names) expect(lines.filter((line) => line.startsWith(`#${name}=`))).toHaveLength(1);
  expect(lines.filter((line) => line !== "" && !line.startsWith("#"))).toEqual([]);
});

test("each default in .env.example, uncommented, leaves the config as it is", () => {
  const env = Object.fromEntries(
    [...renderEnvExample().matchAll(/^#(KEYRUN_\w+)=(.+)$/gm)]
      .map(([, name, text]) => [name, text] as const)
      // Examples of settings that go together only with others, and those without a fixed default.
      .filter(
        ([name]) => !/_TLS_|_OIDC_|_PUBLIC_URL|_ADVERTISE_|_RUN_BYTES_|_KEY_HEADER|_PLAN_QUOTAS/.test(name!),
      ),
  );
  expect(Object.keys(env).length).toBeGreaterThan(15);
  const noFile = () => "";
  expect(readSettings(env, noFile)).toEqual(readSettings({}, noFile));
});

test("the page of the settings has a row for every setting, and the file names of the secrets", () => {
  const table = renderSettingsTable();
  for (const name of names) expect(table).toContain(`| \`${name}\``);
  expect(table).toContain("`KEYRUN_SECRET`, `KEYRUN_SECRET_FILE`");
});

test("the table replaces what stood in its place, and only that", () => {
  const filled = withTable(
    "# A\n<!-- settings:start -->\nold $& words\n<!-- settings:end -->\nB\n",
    "settings",
    renderSettingsTable(),
  );
  expect(filled).toBe(`# A\n<!-- settings:start -->\n${renderSettingsTable()}<!-- settings:end -->\nB\n`);
  expect(withTable(filled!, "settings", renderSettingsTable())).toBe(filled);
  expect(withTable("# no place", "settings", "")).toBeUndefined();
});
