import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type {
  BackgroundEnd,
  BackgroundRecord,
  BackgroundRunStore,
  RunsUnderWay,
} from "../../run/background/background-store.ts";
import { backgroundRecord, checkRecord } from "../records.ts";
import { createKeptTexts } from "./run-record-store.ts";
import { answer, columnsOf, parseJson, writeAside } from "./statement.ts";

/** The runs in the background, in SQLite. */
export function createBackgroundRunStore(db: DatabaseSync): BackgroundRunStore {
  const statement = prepare(db);

  function end(id: string, { state, text, error, endTimeMs, expireTimeMs }: BackgroundEnd): void {
    const bytes = text === null ? null : Buffer.from(text);
    const fault = error === null ? null : JSON.stringify(error);
    statement.end.run(state, bytes, bytes?.length ?? null, fault, endTimeMs, expireTimeMs, id);
  }

  return {
    insert: (record) =>
      writeAside(db, () => {
        const row = checkRecord(backgroundRecord, record, "background_runs");
        const { error } = row;
        statement.insert.run({ ...row, error: error === null ? null : JSON.stringify(error) });
      }),
    end: (id, ending) =>
      writeAside(db, () => {
        end(id, ending);
        return recordOf(statement.find.get(id));
      }),
    endAll: (runs, ending, limit) =>
      writeAside(db, () => {
        const { where, values } = conditionOf(runs);
        const some = `SELECT id FROM background_runs WHERE state = 'running' AND ${where} LIMIT max(?, 0)`;
        const ids = db.prepare(some).all(...values, limit);
        return ids.map((row) => {
          const id = String(row.id);
          end(id, ending);
          return id;
        });
      }),
    remove: (id) => writeAside(db, () => void statement.remove.run(id)),
    find: (id) => answer(() => recordOf(statement.find.get(id))),
    textOf: (id) =>
      answer(() => {
        const text = statement.textOf.get(id)?.text;
        return text instanceof Uint8Array ? Buffer.from(text).toString() : null;
      }),
    stillRunning: (ids) =>
      answer(() => statement.stillRunning.all(JSON.stringify(ids)).map(({ id }) => String(id))),
    owners: () => answer(() => statement.owners.all().map(({ owner }) => String(owner))),
    list: (teamId, { after, limit, appIds }) =>
      answer(() => {
        const { timeMs, id } = after ?? { timeMs: Number.MAX_SAFE_INTEGER, id: "" };
        const apps = appIds === undefined ? null : JSON.stringify(appIds);
        return statement.list.all(teamId, timeMs, timeMs, id, apps, apps, limit).map(check);
      }),
    ...createKeptTexts(db, {
      table: "background_runs",
      noBytes: null,
      // A run under way is not forgotten.
      oldestWhere: "state <> 'running'",
    }),
  };
}

const { names, values, select } = columnsOf(backgroundRecord.shape);

function prepare(db: DatabaseSync) {
  return {
    insert: db.prepare(`INSERT INTO background_runs (${names}) VALUES (${values})`),
    end: db.prepare(`UPDATE background_runs SET state = ?1, text = ?2, text_bytes = ?3, error = ?4,
      end_time_ms = ?5, expire_time_ms = ?6 WHERE id = ?7 AND state = 'running'`),
    find: db.prepare(`SELECT ${select} FROM background_runs WHERE id = ?`),
    textOf: db.prepare("SELECT text FROM background_runs WHERE id = ?"),
    stillRunning: db.prepare(`SELECT id FROM background_runs
      WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running'`),
    owners: db.prepare("SELECT DISTINCT owner FROM background_runs WHERE state = 'running'"),
    list: db.prepare(`SELECT ${select} FROM background_runs
      WHERE team_id = ? AND (create_time_ms < ? OR (create_time_ms = ? AND id < ?))
      AND (? IS NULL OR app_id IN (SELECT value FROM json_each(?)))
      ORDER BY create_time_ms DESC, id DESC LIMIT max(?, 0)`),
    remove: db.prepare("DELETE FROM background_runs WHERE id = ?"),
  };
}

function conditionOf({ teamId, appId, exceptTeamIds, owner }: RunsUnderWay): {
  readonly where: string;
  readonly values: SQLInputValue[];
} {
  const conditions: [string, SQLInputValue][] = [];
  if (teamId !== undefined) conditions.push(["team_id = ?", teamId]);
  if (appId !== undefined) conditions.push(["app_id = ?", appId]);
  if (owner !== undefined) conditions.push(["owner = ?", owner]);
  if (exceptTeamIds !== undefined) {
    conditions.push(["team_id NOT IN (SELECT value FROM json_each(?))", JSON.stringify(exceptTeamIds)]);
  }
  return {
    where: conditions.map(([condition]) => condition).join(" AND "),
    values: conditions.map(([, value]) => value),
  };
}

function recordOf(row: Record<string, unknown> | undefined): BackgroundRecord | undefined {
  return row && check(row);
}

function check(row: Record<string, unknown>): BackgroundRecord {
  const { error } = row;
  const record = { ...row, error: error === null ? null : parseJson(error) };
  return checkRecord(backgroundRecord, record, "background_runs");
}
