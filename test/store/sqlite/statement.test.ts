import { join } from "node:path";
import { expect, test } from "vitest";
import { createKeyStore } from "#src/store/sqlite/key-store.ts";
import { openDatabase } from "#src/store/sqlite/locked-database.ts";
import { createSchema } from "#src/store/sqlite/schema.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { countTurns } from "../../harness/counted-turns.ts";
import { keyRecordOf } from "../../harness/store-records.ts";

const folders = tempFolders();

test("a full store refuses writes with STORE_FULL, still answers reads, and accepts writes again once there is space", async () => {
  const db = openDatabase(join(folders.create(), "keyrun.db"));
  createSchema(db);
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

test("the uses of many keys are written in parts, each in a turn of the event loop", async () => {
  const db = openDatabase(join(folders.create(), "keyrun.db"));
  createSchema(db);
  const keys = createKeyStore(db);
  for (const id of ["first", "last"])
    await keys.insert(keyRecordOf({ id, teamId: "demo" }), { activeMax: 2 });
  const unknown = Array.from({ length: 9_998 }, (_, n) => [`k${n}`, 1] as const);
  const turns = countTurns();
  await keys.recordUses(new Map([["first", 5], ...unknown, ["last", 6]]));
  expect(turns()).toBeGreaterThanOrEqual(3);
  expect((await keys.find("first"))?.lastUseTimeMs).toBe(5);
  expect((await keys.find("last"))?.lastUseTimeMs).toBe(6);
  db.close();
});

test("a part of the uses is written whole or not at all", async () => {
  const db = openDatabase(join(folders.create(), "keyrun.db"));
  createSchema(db);
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

test("of many changes at once at most four are written in a turn of the event loop, in their order", async () => {
  const db = openDatabase(join(folders.create(), "keyrun.db"));
  createSchema(db);
  const keys = createKeyStore(db);
  const turns = countTurns();
  const ids = Array.from({ length: 20 }, (_, n) => `k${n}`);
  const written: { readonly id: string; readonly turn: number }[] = [];
  await Promise.all(
    ids.map(async (id) => {
      await keys.insert(keyRecordOf({ id, teamId: "demo" }), { activeMax: 20 });
      written.push({ id, turn: turns() });
    }),
  );
  expect(written.map(({ id }) => id)).toEqual(ids);
  const inTurns = [...Map.groupBy(written, ({ turn }) => turn).values()];
  expect(Math.max(...inTurns.map(({ length }) => length))).toBeLessThanOrEqual(4);
  db.close();
});
