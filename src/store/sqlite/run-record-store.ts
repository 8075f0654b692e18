import type { DatabaseSync } from "node:sqlite";
import { bounds } from "../../bounds.ts";
import type {
  RecordTotals,
  RunRecord,
  RunRecordChange,
  RunRecordStore,
} from "../../run/idempotency/run-record-store.ts";
import { checkRecord, runRecord, sumByTeam, sumOf } from "../records.ts";
import { answer, columnsOf, writeAside } from "./statement.ts";

/** The records of runs in SQLite. */
export function createRunRecordStore(db: DatabaseSync): RunRecordStore {
  const statement = prepare(db);

  function make(change: RunRecordChange): RunRecord | undefined {
    switch (change.kind) {
      case "claim": {
        const row = check({ ...change.claim, textBytes: 0 });
        const { changes } = statement.claim.run({ ...row });
        return changes === 1 ? undefined : recordOf(statement.find.get(change.id));
      }
      case "end": {
        const { state, text, textBytes, expireTimeMs, id, runId } = change;
        statement.end.run(
          state,
          text === null ? null : Buffer.from(text),
          textBytes,
          expireTimeMs,
          id,
          runId,
        );
        return undefined;
      }
      case "release":
        statement.release.run(change.id, change.runId, change.state);
        return undefined;
    }
  }

  return {
    write: (changes) => writeAside(db, () => changes.map(make)),
    find: (id) => answer(() => recordOf(statement.find.get(id))),
    textOf: (id, runId) =>
      answer(() => {
        const text = statement.textOf.get(id, runId)?.text;
        return text instanceof Uint8Array ? Buffer.from(text).toString() : null;
      }),
    ...createKeptTexts(db, { table: "run_records", noBytes: 0 }),
  };
}

const { names, values, select } = columnsOf(runRecord.shape);

function prepare(db: DatabaseSync) {
  return {
    claim: db.prepare(`INSERT INTO run_records (${names}) VALUES (${values}) ON CONFLICT DO NOTHING`),
    end: db.prepare(`UPDATE run_records SET state = ?1, text = ?2, text_bytes = ?3, expire_time_ms = ?4
      WHERE id = ?5 AND run_id = ?6 AND state = 'running'`),
    release: db.prepare("DELETE FROM run_records WHERE id = ? AND run_id = ? AND state = ?"),
    find: db.prepare(`SELECT ${select} FROM run_records WHERE id = ?`),
    textOf: db.prepare("SELECT text FROM run_records WHERE id = ? AND run_id = ?"),
  };
}

function recordOf(row: Record<string, unknown> | undefined): RunRecord | undefined {
  return row && check(row);
}

function check(row: unknown): RunRecord {
  return checkRecord(runRecord, row, "run_records");
}

type KeptTexts = Pick<
  RunRecordStore,
  "totals" | "deleteOldest" | "dropTexts" | "deleteExpired" | "deleteAll"
>;

/**
 * What a table of runs does within the quota of a team, and when its records expire: it has their
 * ids, teams, times, texts, and the bytes of these, which are `noBytes` where there is none. Only
 * those of `oldestWhere` make room.
 */
export function createKeptTexts(
  db: DatabaseSync,
  facts: { readonly table: string; readonly noBytes: 0 | null; readonly oldestWhere?: string },
): KeptTexts {
  const statement = prepareKept(db, facts);

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
          statement.dropText.run(facts.noBytes, String(id));
          freed += Number(text_bytes);
        }
        return freed;
      }),
    deleteExpired: ({ nowMs, limit }) =>
      writeAside(db, () => sumByTeam(remove(statement.expired.all(nowMs, limit)))),
    deleteAll: (teamId, limit) => writeAside(db, () => remove(statement.ofTeam.all(teamId, limit)).length),
  };
}

function prepareKept(
  db: DatabaseSync,
  { table, oldestWhere = "true" }: { table: string; oldestWhere?: string },
) {
  const some = `SELECT id, team_id, text_bytes FROM ${table} WHERE`;
  return {
    totals: db.prepare(`SELECT count(*) AS records, coalesce(sum(text_bytes), 0) AS text_bytes
      FROM ${table} WHERE team_id = ?`),
    oldest: db.prepare(`${some} team_id = ? AND create_time_ms <= ? AND ${oldestWhere}
      ORDER BY create_time_ms LIMIT max(?, 0)`),
    oldestTexts: db.prepare(`SELECT id, text_bytes FROM ${table} WHERE team_id = ? AND text_bytes > 0
      ORDER BY expire_time_ms LIMIT max(?, 0)`),
    dropText: db.prepare(`UPDATE ${table} SET text = NULL, text_bytes = ? WHERE id = ?`),
    expired: db.prepare(`${some} expire_time_ms <= ? ORDER BY expire_time_ms LIMIT max(?, 0)`),
    ofTeam: db.prepare(`${some} team_id = ? ORDER BY create_time_ms LIMIT max(?, 0)`),
    remove: db.prepare(`DELETE FROM ${table} WHERE id = ?`),
  };
}

function removedOf({ id, team_id, text_bytes }: Record<string, unknown>) {
  return { id: String(id), teamId: String(team_id), textBytes: Number(text_bytes ?? 0) };
}

function totalsOf(row: Record<string, unknown> | undefined): RecordTotals {
  return { records: Number(row?.records), textBytes: Number(row?.text_bytes) };
}
