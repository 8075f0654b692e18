import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { migrate } from "#src/store/sqlite/migrations.ts";

const steps = [
  "CREATE TABLE a (n INTEGER) STRICT; INSERT INTO a VALUES (1)",
  "UPDATE a SET n = n + 1; ALTER TABLE a ADD COLUMN m INTEGER",
];
const rows = (db: DatabaseSync) => db.prepare("SELECT * FROM a").all();
const version = (db: DatabaseSync) => db.prepare("PRAGMA user_version").get()?.user_version;

test("each step runs once, in order, also where the store is some steps behind", () => {
  const db = new DatabaseSync(":memory:");
  migrate(db, steps.slice(0, 1));
  expect(rows(db)).toEqual([{ n: 1 }]);
  for (let start = 0; start < 2; start++) {
    migrate(db, steps);
    expect(rows(db)).toEqual([{ n: 2, m: null }]);
    expect(version(db)).toBe(2);
  }
});

test("a step that fails leaves nothing behind, and the steps before it stay done", () => {
  const db = new DatabaseSync(":memory:");
  expect(() =>
    migrate(db, [...steps.slice(0, 1), "UPDATE a SET n = 7; INSERT INTO missing VALUES (1)"]),
  ).toThrow();
  expect(db.isTransaction).toBe(false);
  expect(version(db)).toBe(1);
  expect(rows(db)).toEqual([{ n: 1 }]);
});

test("a store of a newer schema is refused and not changed", () => {
  const db = new DatabaseSync(":memory:");
  migrate(db, steps);
  expect(() => migrate(db, steps.slice(0, 1))).toThrow(StartRefused);
  expect(version(db)).toBe(2);
});
