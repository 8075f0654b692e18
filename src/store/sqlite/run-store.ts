import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { bounds } from "../../bounds.ts";
import {
  type RecordTotals,
  type RunChange,
  type RunEnd,
  type RunRecord,
  type RunStore,
  type RunsUnderWay,
  runRecord,
} from "../../run/kept/run-store.ts";
import { checkRecord, sumByTeam, sumOf } from "../records.ts";
import { answer, columnsOf, parseJson, writeAside } from "./statement.ts";

/** The records of runs in SQLite. */
export function createRunStore(db: DatabaseSync): RunStore {
  const statement = prepare(db);
  const find = (id: string) => recordOf(statement.find.get(id));
  const findByKey = (keyHash: string) => recordOf(statement.findByKey.get(keyHash));

  /** Returns whether the run had none yet. */
  function end(id: string, { state, text, error, endTimeMs, expireTimeMs, freesKey }: RunEnd): boolean {
    const bytes = text === null ? null : Buffer.from(text);
    const fault = error === null ? null : JSON.stringify(error);
    const length = bytes?.length ?? null;
    const frees = freesKey ? 1 : 0;
    return statement.end.run(state, bytes, length, fault, endTimeMs, expireTimeMs, frees, id).changes === 1;
  }

  function make(change: RunChange): RunRecord | undefined {
    if (change.kind === "insert") {
      const { changes } = statement.insert.run(rowOf(change.record));
      return changes === 1 ? undefined : findByKey(change.record.keyHash);
    }
    if (change.kind === "end") return end(change.id, change.end) ? undefined : find(change.id);
    statement.remove.run(change.id, change.state);
    return undefined;
  }

  return {
    write: (changes) => writeAside(db, () => changes.map(make)),
    endAll: (runs, ending, limit) =>
      writeAside(db, () => {
        const { where, values } = conditionOf(runs);
        const some = `SELECT id FROM runs WHERE state = 'running' AND ${where} LIMIT max(?, 0)`;
        const ids = db.prepare(some).all(...values, limit);
        return ids.map((row) => {
          const id = String(row.id);
          end(id, ending);
          return id;
        });
      }),
    find: (id) => answer(() => find(id)),
    findByKey: (keyHash) => answer(() => findByKey(keyHash)),
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
    ...createRemovals(db),
  };
}

const { names, values, select } = columnsOf(runRecord.shape);

function prepare(db: DatabaseSync) {
  return {
    insert: db.prepare(`INSERT INTO runs (${names}) VALUES (${values}) ON CONFLICT (key_hash) DO NOTHING`),
    end: db.prepare(`UPDATE runs SET state = ?1, text = ?2, text_bytes = ?3, error = ?4, end_time_ms = ?5,
      expire_time_ms = ?6, key_hash = CASE ?7 WHEN 1 THEN id ELSE key_hash END
      WHERE id = ?8 AND state = 'running'`),
    remove: db.prepare("DELETE FROM runs WHERE id = ? AND state = ?"),
    find: db.prepare(`SELECT ${select} FROM runs WHERE id = ?`),
    findByKey: db.prepare(`SELECT ${select} FROM runs WHERE key_hash = ?`),
    textOf: db.prepare("SELECT text FROM runs WHERE id = ?"),
    stillRunning: db.prepare(`SELECT id FROM runs
      WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running'`),
    owners: db.prepare("SELECT DISTINCT owner FROM runs WHERE state = 'running'"),
    list: db.prepare(`SELECT ${select} FROM runs
      WHERE team_id = ? AND listed = 1 AND (create_time_ms < ? OR (create_time_ms = ? AND id < ?))
      AND (? IS NULL OR app_id IN (SELECT value FROM json_each(?)))
      ORDER BY create_time_ms DESC, id DESC LIMIT max(?, 0)`),
  };
}

function conditionOf({ teamId, appId, exceptTeamIds, owner, listed }: RunsUnderWay): {
  readonly where: string;
  readonly values: SQLInputValue[];
} {
  const conditions: [string, SQLInputValue][] = [];
  if (teamId !== undefined) conditions.push(["team_id = ?", teamId]);
  if (appId !== undefined) conditions.push(["app_id = ?", appId]);
  if (owner !== undefined) conditions.push(["owner = ?", owner]);
  if (listed !== undefined) conditions.push(["listed = ?", Number(listed)]);
  if (exceptTeamIds !== undefined) {
    conditions.push(["team_id NOT IN (SELECT value FROM json_each(?))", JSON.stringify(exceptTeamIds)]);
  }
  return {
    where: conditions.map(([condition]) => condition).join(" AND "),
    values: conditions.map(([, value]) => value),
  };
}

function rowOf(record: RunRecord) {
  const { listed, error, ...facts } = checkRecord(runRecord, record, "runs");
  return { ...facts, listed: Number(listed), error: error === null ? null : JSON.stringify(error) };
}

function recordOf(row: Record<string, unknown> | undefined): RunRecord | undefined {
  return row && check(row);
}

function check(row: Record<string, unknown>): RunRecord {
  const { error, listed } = row;
  const record = { ...row, listed: listed === 1, error: error === null ? null : parseJson(error) };
  return checkRecord(runRecord, record, "runs");
}

/** What is removed within the quota of a team, with its team, or as it has expired. */
function createRemovals(
  db: DatabaseSync,
): Pick<RunStore, "totals" | "deleteOldest" | "dropTexts" | "deleteExpired" | "deleteAll"> {
  const statement = prepareRemovals(db);

  /**
   * Removes these records, but only the first of them if their texts are large: a write stops all
   * other work, and SQLite reads every page of a text that it removes. Returns those removed.
   */
  function remove(found: readonly Record<string, unknown>[]) {
    const removed: ReturnType<typeof removedOf>[] = [];
    let bytes = 0;
    for (const row of found) {
      const one = removedOf(row);
      bytes += one.textBytes;
      if (removed.length > 0 && bytes > bounds.removedTextBytesAtOnce) break;
      statement.remove.run(one.id);
      removed.push(one);
    }
    return removed;
  }

  return {
    totals: (teamId) => answer(() => totalsOf(statement.totals.get(teamId))),
    deleteOldest: (teamId, { createdUntilMs, limit }) =>
      writeAside(db, () => sumOf(remove(statement.oldest.all(teamId, createdUntilMs, limit)))),
    dropTexts: (teamId, { bytes, limit }) =>
      writeAside(db, () => {
        let freed = 0;
        for (const { id, text_bytes } of statement.oldestTexts.all(teamId, limit)) {
          if (freed >= bytes) break;
          statement.dropText.run(String(id));
          freed += Number(text_bytes);
        }
        return freed;
      }),
    deleteExpired: ({ nowMs, limit }) =>
      writeAside(db, () => sumByTeam(remove(statement.expired.all(nowMs, limit)))),
    deleteAll: (teamId, limit) => writeAside(db, () => remove(statement.ofTeam.all(teamId, limit)).length),
  };
}

function prepareRemovals(db: DatabaseSync) {
  const some = "SELECT id, team_id, text_bytes FROM runs WHERE";
  return {
    totals: db.prepare(`SELECT count(*) AS records, coalesce(sum(text_bytes), 0) AS text_bytes
      FROM runs WHERE team_id = ?`),
    // A run under way is not forgotten.
    oldest: db.prepare(`${some} team_id = ? AND create_time_ms <= ? AND state <> 'running'
      ORDER BY create_time_ms LIMIT max(?, 0)`),
    oldestTexts: db.prepare(`SELECT id, text_bytes FROM runs WHERE team_id = ? AND text_bytes > 0
      ORDER BY expire_time_ms LIMIT max(?, 0)`),
    dropText: db.prepare("UPDATE runs SET text = NULL, text_bytes = NULL WHERE id = ?"),
    expired: db.prepare(`${some} expire_time_ms <= ? ORDER BY expire_time_ms LIMIT max(?, 0)`),
    ofTeam: db.prepare(`${some} team_id = ? ORDER BY create_time_ms LIMIT max(?, 0)`),
    remove: db.prepare("DELETE FROM runs WHERE id = ?"),
  };
}

function removedOf({ id, team_id, text_bytes }: Record<string, unknown>) {
  return { id: String(id), teamId: String(team_id), textBytes: Number(text_bytes ?? 0) };
}

function totalsOf(row: Record<string, unknown> | undefined): RecordTotals {
  return { records: Number(row?.records), textBytes: Number(row?.text_bytes) };
}
