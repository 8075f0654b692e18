import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, expect, test } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { schemaNumber } from "#src/store/schema-number.ts";
import { inspectSqliteStore } from "#src/store/sqlite/inspect-store.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { createTempFolders } from "../../harness/temp-folders.ts";

const folders = createTempFolders();
afterAll(() => folders.remove());

/** Makes a store whose schema has this number, and returns what its file is then. */
async function storeOf(dataDir: string, version: number) {
  await (await openSqliteStores({ dataDir })).close();
  const db = new DatabaseSync(join(dataDir, "keyrun.db"));
  db.exec(`PRAGMA user_version = ${version}`);
  db.close();
}

function versionOf(dataDir: string): unknown {
  const db = new DatabaseSync(join(dataDir, "keyrun.db"), { readOnly: true });
  const version = db.prepare("PRAGMA user_version").get()?.user_version;
  db.close();
  return version;
}

test.each([
  { version: schemaNumber - 1, words: /before the first release of Keyrun.*Start with an empty/ },
  { version: schemaNumber + 1, words: /A newer Keyrun wrote this store.*Start the newer one again/ },
])("a store of schema $version is refused in words, and not changed", async ({ version, words }) => {
  const dataDir = folders.create();
  await storeOf(dataDir, version);
  const opened = openSqliteStores({ dataDir });
  await expect(opened).rejects.toBeInstanceOf(StartRefused);
  await expect(opened).rejects.toThrow(words);
  expect(() => inspectSqliteStore({ dataDir })).toThrow(words);
  expect(versionOf(dataDir)).toBe(version);
});

test("a file without tables is an empty store: the first start makes them", async () => {
  const dataDir = folders.create();
  new DatabaseSync(join(dataDir, "keyrun.db")).close();
  expect(inspectSqliteStore({ dataDir }).words).toBe("empty: the first start makes its tables");
  const stores = await openSqliteStores({ dataDir });
  expect(await stores.isEmpty()).toBe(true);
  await stores.close();
  expect(inspectSqliteStore({ dataDir }).words).toBe(`schema ${schemaNumber}`);
});
