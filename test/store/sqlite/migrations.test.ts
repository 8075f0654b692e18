import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { migrate, migrations } from "#src/store/sqlite/migrations.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { columnsOf } from "#src/store/sqlite/statement.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { auditEventOf, keyRecordOf, newAppOf, teamRecordOf } from "../../harness/store-records.ts";

const folders = tempFolders();

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

test("what the schemas before held can be read, searched, created beside and deleted", async () => {
  const dataDir = folders.create();
  const path = join(dataDir, "keyrun.db");
  const key = keyRecordOf({ id: "k", teamId: "demo", label: "CI-Dépôt" });
  const app = newAppOf({ id: "echo", streamTimeoutMs: 5, backgroundTimeoutMs: 6 });
  const team = teamRecordOf({ id: "demo" });
  const before = new DatabaseSync(path);
  migrate(before, migrations.slice(0, 3));
  const insertKey = before.prepare(`INSERT INTO keys (id, team_id, label, redacted_value, digest,
    secret_version, create_time_ms, created_by, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)`);
  for (const { id, label } of [key, { id: "l", label: "" }]) {
    const { teamId, redactedValue, digest, secretVersion, createTimeMs, createdBy } = key;
    insertKey.run(id, teamId, label, redactedValue, digest, secretVersion, createTimeMs, createdBy);
  }
  before
    .prepare("INSERT INTO teams VALUES (?, ?, ?, ?, 1)")
    .run(team.id, team.displayName, team.plan, team.createTimeMs);
  before
    .prepare("INSERT INTO apps VALUES (?, ?, ?, ?, ?, ?, 1, 0)")
    .run(
      ...[app.id, app.displayName, JSON.stringify(app.backend), app.timeoutMs],
      ...[JSON.stringify(app.teamIds), app.createTimeMs],
    );
  before.close();

  const stores = await openSqliteStores({ dataDir });
  const match = { labelPart: "dépôt" };
  const found = await stores.keys.list({ teamId: "demo", limit: 5, includeRevoked: true, match });
  expect(found).toEqual([key]);
  const times = { streamTimeoutMs: 600_000, backgroundTimeoutMs: 600_000 };
  expect(await stores.apps.find("echo")).toEqual({ ...app, ...times, version: 1 });
  expect(await stores.teams.find("demo")).toEqual(teamRecordOf({ id: "demo" }));
  await stores.teams.update("demo", { state: "ending" });
  expect(await stores.teams.delete("demo", 2)).toBe(3);
  await stores.close();
});

test("events from before they had a detail are listed with an empty one", async () => {
  const dataDir = folders.create();
  const before = new DatabaseSync(join(dataDir, "keyrun.db"));
  const withDetail = migrations.findIndex((step) => step.includes("ADD COLUMN detail"));
  migrate(before, migrations.slice(0, withDetail));
  const { detail: _, ...event } = auditEventOf({ id: "e", teamId: "demo" });
  const { names, values } = columnsOf(event);
  before.prepare(`INSERT INTO audit_events (${names}) VALUES (${values})`).run(event);
  before.close();

  const stores = await openSqliteStores({ dataDir });
  expect(await stores.audit.list({ limit: 5 })).toEqual([{ ...event, detail: "" }]);
  await stores.close();
});
