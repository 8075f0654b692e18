import type { DatabaseSync } from "node:sqlite";
import type {
  RecordTotals,
  RunRecord,
  RunRecordChange,
  RunRecordStore,
} from "../../run/repeat/run-record-store.ts";
import { sumByTeam, sumOf } from "../record-sums.ts";
import { checkRecord, runRecord } from "../records.ts";
import { columnsOf } from "./columns.ts";
import { answer, write } from "./statement.ts";

/** The records of runs in SQLite. */
export function createRunRecordStore(db: DatabaseSync): RunRecordStore {
  const statement = prepare(db);

  function make(change: RunRecordChange): RunRecord | undefined {
    switch (change.kind) {
      case "claim": {
        const row = check({ ...change.claim, state: "running", textBytes: 0 });
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
        statement.release.run(change.id, change.runId);
        return undefined;
    }
  }

  return {
    write: (changes) => write(db, () => changes.map(make)),
    find: (id) => answer(() => recordOf(statement.find.get(id))),
    textOf: (id, runId) =>
      answer(() => {
        const text = statement.textOf.get(id, runId)?.text;
        return text instanceof Uint8Array ? Buffer.from(text).toString() : null;
      }),
    totals: (teamId) => answer(() => totalsOf(statement.totals.get(teamId))),
    deleteOldest: (teamId, { createdUntilMs, limit }) =>
      write(db, () => sumOf(statement.deleteOldest.all(teamId, createdUntilMs, limit).map(removedOf))),
    dropTexts: (teamId, { bytes, limit }) =>
      write(db, () => {
        let freed = 0;
        for (const { id, text_bytes } of statement.oldestTexts.all(teamId, limit)) {
          if (freed >= bytes) break;
          statement.dropText.run(String(id));
          freed += Number(text_bytes);
        }
        return freed;
      }),
    deleteExpired: ({ nowMs, limit }) =>
      write(db, () => sumByTeam(statement.deleteExpired.all(nowMs, limit).map(removedOf))),
    deleteAll: (teamId, limit) => write(db, () => Number(statement.deleteAll.run(teamId, limit).changes)),
  };
}

const { names, values, select } = columnsOf(runRecord.shape);

function prepare(db: DatabaseSync) {
  const some = (condition: string) => `DELETE FROM run_records WHERE id IN (
    SELECT id FROM run_records WHERE ${condition})`;
  const removed = "RETURNING team_id, text_bytes";
  return {
    claim: db.prepare(`INSERT INTO run_records (${names}) VALUES (${values}) ON CONFLICT DO NOTHING`),
    end: db.prepare(`UPDATE run_records SET state = ?1, text = ?2, text_bytes = ?3, expire_time_ms = ?4
      WHERE id = ?5 AND run_id = ?6`),
    release: db.prepare("DELETE FROM run_records WHERE id = ? AND run_id = ?"),
    find: db.prepare(`SELECT ${select} FROM run_records WHERE id = ?`),
    textOf: db.prepare("SELECT text FROM run_records WHERE id = ? AND run_id = ?"),
    totals: db.prepare(`SELECT count(*) AS records, coalesce(sum(text_bytes), 0) AS text_bytes
      FROM run_records WHERE team_id = ?`),
    deleteOldest: db.prepare(
      `${some("team_id = ?1 AND create_time_ms <= ?2 ORDER BY create_time_ms LIMIT max(?3, 0)")} ${removed}`,
    ),
    oldestTexts: db.prepare(`SELECT id, text_bytes FROM run_records WHERE team_id = ? AND text_bytes > 0
      ORDER BY expire_time_ms LIMIT max(?, 0)`),
    dropText: db.prepare("UPDATE run_records SET text = NULL, text_bytes = 0 WHERE id = ?"),
    deleteExpired: db.prepare(`${some("expire_time_ms <= ?1 LIMIT max(?2, 0)")} ${removed}`),
    deleteAll: db.prepare(some("team_id = ? LIMIT max(?, 0)")),
  };
}

function recordOf(row: Record<string, unknown> | undefined): RunRecord | undefined {
  return row && check(row);
}

function check(row: unknown): RunRecord {
  return checkRecord(runRecord, row, "run_records");
}

function removedOf({ team_id, text_bytes }: Record<string, unknown>) {
  return { teamId: String(team_id), textBytes: Number(text_bytes) };
}

function totalsOf(row: Record<string, unknown> | undefined): RecordTotals {
  return { records: Number(row?.records), textBytes: Number(row?.text_bytes) };
}
