import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { type AppRecord, type AppStore, appRecord } from "../../apps/app-store.ts";
import { checkRecord, given } from "../records.ts";
import { answer, columnsOf, parseJson, write, writeRevocation } from "./statement.ts";

/** The apps in SQLite; backend and teams are JSON columns. */
export function createAppStore(db: DatabaseSync): AppStore {
  const statement = prepare(db);

  return {
    insert: (app) => write(db, () => appOf(statement.insert.get(rowOf({ ...app, version: 1 })))),
    find: (appId) => answer(() => appOf(statement.find.get(appId))),
    list: ({ limit, after = "", runnableBy }) =>
      answer(() => {
        const rows =
          runnableBy === undefined
            ? statement.list.all(after, limit)
            : statement.listRunnable.all(after, limit, runnableBy);
        return rows.map(checkApp);
      }),
    limitedTo: (teamId, limit) =>
      answer(() => statement.limitedTo.all(teamId, limit).map(({ id }) => String(id))),
    update: (appId, change, version) =>
      write(db, () => {
        const app = appOf(statement.find.get(appId));
        if (version !== undefined && app?.version !== version) return undefined;
        return app && appOf(statement.update.get(rowOf({ ...app, ...given(change) })));
      }),
    delete: (appId) =>
      writeRevocation(db, () => {
        const row = statement.delete.get(appId);
        return row && Number(row.version);
      }),
    deletedVersion: (appId) =>
      answer(() => {
        const row = statement.deletedVersion.get(appId);
        return row && Number(row.version);
      }),
  };
}

const { names, values, select: fields } = columnsOf(appRecord.shape);
const { id, version, ...facts } = appRecord.shape;
const { set, setExcluded } = columnsOf(facts);

function prepare(db: DatabaseSync) {
  const select = `SELECT ${fields} FROM apps WHERE deleted = 0`;
  const page = "AND id > ?1 ORDER BY id LIMIT max(?2, 0)";
  return {
    // Where a deleted app has the id, its version is raised. Where a live app has it, nothing is
    // written or returned.
    insert: db.prepare(`INSERT INTO apps (${names}, deleted) VALUES (${values}, 0)
      ON CONFLICT DO UPDATE SET ${setExcluded}, version = version + 1, deleted = 0
      WHERE deleted = 1 RETURNING ${fields}`),
    find: db.prepare(`${select} AND id = ?`),
    list: db.prepare(`${select} ${page}`),
    listRunnable: db.prepare(`${select}
      AND (team_ids = '[]' OR EXISTS (SELECT 1 FROM json_each(team_ids) WHERE value = ?3)) ${page}`),
    limitedTo: db.prepare(`SELECT id FROM apps WHERE deleted = 0
      AND EXISTS (SELECT 1 FROM json_each(team_ids) WHERE value = ?) ORDER BY id LIMIT max(?, 0)`),
    update: db.prepare(`UPDATE apps SET ${set}, version = :version + 1 WHERE id = :id RETURNING ${fields}`),
    // The backend's headers may be credentials, so they are deleted with the app.
    delete: db.prepare(`UPDATE apps SET display_name = '', backend = '{"kind":"echo"}', team_ids = '[]',
      version = version + 1, deleted = 1 WHERE id = ? AND deleted = 0 RETURNING version`),
    deletedVersion: db.prepare("SELECT version FROM apps WHERE id = ? AND deleted = 1"),
  };
}

function rowOf(app: AppRecord): Record<string, SQLInputValue> {
  const { backend, teamIds, ...plain } = checkRecord(appRecord, app, `apps/${app.id}`);
  return { ...plain, backend: JSON.stringify(backend), teamIds: JSON.stringify(teamIds) };
}

function appOf(row: Record<string, unknown> | undefined): AppRecord | undefined {
  return row && checkApp(row);
}

function checkApp(row: Record<string, unknown>): AppRecord {
  const parsed = { ...row, backend: parseJson(row.backend), teamIds: parseJson(row.teamIds) };
  return checkRecord(appRecord, parsed, `apps/${row.id}`);
}
