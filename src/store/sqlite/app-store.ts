import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { AppRecord, AppStore, NewApp } from "../../apps/app-store.ts";
import { given } from "../given.ts";
import { appRecord, checkRecord } from "../records.ts";
import { answer, write } from "./statement.ts";

/** The apps in SQLite; backend and teams are columns of JSON. */
export function createAppStore(db: DatabaseSync): AppStore {
  const statement = prepare(db);

  return {
    insert: (app) => write(db, () => appOf(statement.insert.get(rowOf(app)))),
    find: (appId) => answer(() => appOf(statement.find.get(appId))),
    list: ({ limit, after = "", runnableBy }) =>
      answer(() => {
        const rows =
          runnableBy === undefined
            ? statement.list.all(after, limit)
            : statement.listRunnable.all(after, limit, runnableBy);
        return rows.map(checkApp);
      }),
    update: (appId, change, version) =>
      write(db, () => {
        const app = appOf(statement.find.get(appId));
        if (version !== undefined && app?.version !== version) return undefined;
        return app && appOf(statement.update.get(rowOf({ ...app, ...given(change) })));
      }),
    delete: (appId) =>
      write(db, () => {
        const row = statement.delete.get(appId);
        return row && Number(row.version);
      }),
  };
}

const columns = `id, display_name AS displayName, backend, timeout_ms AS timeoutMs, team_ids AS teamIds,
  create_time_ms AS createTimeMs, version`;

function prepare(db: DatabaseSync) {
  const select = `SELECT ${columns} FROM apps WHERE deleted = 0`;
  const page = "AND id > ?1 ORDER BY id LIMIT max(?2, 0)";
  return {
    // Over a deleted app of the same id the version goes on; over a live one nothing is written or answered.
    insert: db.prepare(`INSERT INTO apps
      VALUES (:id, :displayName, :backend, :timeoutMs, :teamIds, :createTimeMs, 1, 0)
      ON CONFLICT DO UPDATE SET display_name = excluded.display_name, backend = excluded.backend,
        timeout_ms = excluded.timeout_ms, team_ids = excluded.team_ids,
        create_time_ms = excluded.create_time_ms, version = version + 1, deleted = 0
      WHERE deleted = 1 RETURNING ${columns}`),
    find: db.prepare(`${select} AND id = ?`),
    list: db.prepare(`${select} ${page}`),
    listRunnable: db.prepare(`${select}
      AND (team_ids = '[]' OR EXISTS (SELECT 1 FROM json_each(team_ids) WHERE value = ?3)) ${page}`),
    update:
      db.prepare(`UPDATE apps SET display_name = :displayName, backend = :backend, timeout_ms = :timeoutMs,
      team_ids = :teamIds, create_time_ms = :createTimeMs, version = version + 1
      WHERE id = :id RETURNING ${columns}`),
    // The backend's headers may be credentials: they go with the app.
    delete: db.prepare(`UPDATE apps SET display_name = '', backend = '{"kind":"echo"}', team_ids = '[]',
      version = version + 1, deleted = 1 WHERE id = ? AND deleted = 0 RETURNING version`),
  };
}

function rowOf(app: NewApp): Record<string, SQLInputValue> {
  const { id, displayName, backend, timeoutMs, teamIds, createTimeMs } = checkRecord(
    appRecord,
    { ...app, version: 1 },
    `apps/${app.id}`,
  );
  return {
    id,
    displayName,
    backend: JSON.stringify(backend),
    timeoutMs,
    teamIds: JSON.stringify(teamIds),
    createTimeMs,
  };
}

function appOf(row: Record<string, unknown> | undefined): AppRecord | undefined {
  return row && checkApp(row);
}

function checkApp(row: Record<string, unknown>): AppRecord {
  const parsed = { ...row, backend: parseJson(row.backend), teamIds: parseJson(row.teamIds) };
  return checkRecord(appRecord, parsed, `apps/${row.id}`);
}

/** Undefined where the text is not JSON: the parser's own error would quote it, and it may hold a credential. */
function parseJson(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}
