import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openDatabase } from "#src/store/sqlite/database.ts";
import { createKeyStore } from "#src/store/sqlite/key-store.ts";
import { migrate } from "#src/store/sqlite/migrations.ts";
import { keyRecordOf } from "../../harness/store-records.ts";
import { createTempFolders } from "../../harness/temp-folders.ts";

const folders = createTempFolders();
afterAll(() => folders.remove());

test("a full store refuses writes with STORE_FULL, still answers reads, and accepts writes again once there is space", async () => {
  const db = openDatabase(join(folders.create(), "keyrun.db"));
  migrate(db);
  const keys = createKeyStore(db);
  const pages = Number(db.prepare("PRAGMA page_count").get()?.page_count);
  db.exec(`PRAGMA max_page_count = ${pages + 2}`);
  const written: string[] = [];
  const fill = async () => {
    for (;;) {
      const id = `k${written.length}`;
      await keys.insert(keyRecordOf({ id, teamId: "demo", label: "x".repeat(500) }), { activeMax: 10_000 });
      written.push(id);
    }
  };
  await expect(fill()).rejects.toMatchObject({ reason: "STORE_FULL" });
  expect(written.length).toBeGreaterThan(0);
  expect(await keys.countActive("demo")).toBe(written.length);
  db.exec(`PRAGMA max_page_count = ${pages + 100}`);
  const late = keyRecordOf({ id: "late", teamId: "demo" });
  expect(await keys.insert(late, { activeMax: 10_000 })).toEqual({ kind: "inserted" });
  db.close();
});

test("uses are written whole or not at all", async () => {
  const db = openDatabase(join(folders.create(), "keyrun.db"));
  migrate(db);
  const keys = createKeyStore(db);
  await keys.insert(keyRecordOf({ id: "k", teamId: "demo" }), { activeMax: 1 });
  await keys.insert(keyRecordOf({ id: "l", teamId: "other" }), { activeMax: 1 });
  const uses = new Map([
    ["k", 5],
    ["l", 5.5],
  ]);
  await expect(keys.recordUses(uses)).rejects.toThrow();
  expect((await keys.find("k"))?.lastUseTimeMs).toBeNull();
  db.close();
});
