import type { DatabaseSync } from "node:sqlite";
import { foldCase } from "../../fields/fold-case.ts";
import type { KeyRecord, KeyStore } from "../../keys/key-store.ts";
import { checkRecord, keyRecord } from "../records.ts";
import { columnsOf } from "./columns.ts";
import { answer, write } from "./statement.ts";

/** The keys in SQLite. */
export function createKeyStore(db: DatabaseSync): KeyStore {
  const statement = prepare(db);
  const countActive = (teamId: string) => Number(statement.countActive.get(teamId)?.n);

  return {
    insert: (key, { activeMax }) =>
      write(db, () => {
        const earlier = statement.findByRequest.get(key.teamId, key.requestId);
        if (earlier) return { kind: "request_id_used", keyId: String(earlier.id) };
        if (countActive(key.teamId) >= activeMax) return { kind: "limit_reached" };
        const row = checkRecord(keyRecord, key, `keys/${key.id}`);
        statement.insert.run({ ...row, labelFolded: foldCase(row.label) });
        return { kind: "inserted" };
      }),
    find: (keyId) => answer(() => keyOf(statement.find.get(keyId))),
    list: ({ teamId, limit, after = newest, until = oldest, includeRevoked, match }) =>
      answer(() => {
        const place = [after.createTimeMs, after.id, until.createTimeMs, until.id];
        const { list, search } = includeRevoked ? statement.all : statement.active;
        if (!match) return list.all(teamId, limit, ...place).map(checkKey);
        const { labelPart = null, idStart = null, redactedPart = null } = match;
        return search.all(teamId, limit, ...place, labelPart, idStart, redactedPart).map(checkKey);
      }),
    placeOf: (n, { teamId, after = newest, includeRevoked }) =>
      answer(() => {
        const { place } = includeRevoked ? statement.all : statement.active;
        const row = place.get(teamId, n, after.createTimeMs, after.id);
        return row && { createTimeMs: Number(row.createTimeMs), id: String(row.id) };
      }),
    countActive: (teamId) => answer(() => countActive(teamId)),
    countRevoked: (teamId, max) => answer(() => Number(statement.countRevoked.get(teamId, max)?.n)),
    revoke: ({ teamId, keyId, revokeTimeMs, revokedBy }) =>
      write(db, () => keyOf(statement.revoke.get(revokeTimeMs, revokedBy, keyId, teamId))),
    delete: (keyId) => write(db, () => void statement.delete.run(keyId)),
    deleteAll: (teamId, limit) =>
      write(db, () => statement.deleteAll.all(teamId, limit).map(({ id }) => String(id))),
    recordUses: (lastUseTimeMsById) =>
      write(db, () => {
        for (const [keyId, timeMs] of lastUseTimeMsById) statement.recordUse.run(timeMs, keyId);
      }),
    secretVersions: () =>
      answer(() => statement.secretVersions.all().map(({ secret_version }) => String(secret_version))),
  };
}

const { names, values, select } = columnsOf(keyRecord.shape);

const newest = { createTimeMs: Number.MAX_SAFE_INTEGER, id: "" };
const oldest = { createTimeMs: -1, id: "" };

/** The lists of a team's keys; `condition` chooses among all of them. */
function prepareLists(db: DatabaseSync, condition: string) {
  const keys = `FROM keys WHERE team_id = ?1 AND (create_time_ms, id) < (?3, ?4) ${condition}`;
  const page = "AND (create_time_ms, id) >= (?5, ?6)";
  const order = "ORDER BY create_time_ms DESC, id DESC";
  return {
    list: db.prepare(`SELECT ${select} ${keys} ${page} ${order} LIMIT max(?2, 0)`),
    // A text that is null fits nothing.
    search: db.prepare(`SELECT ${select} ${keys} ${page} AND (instr(label_folded, ?7) > 0
      OR substr(id, 1, length(?8)) = ?8 OR instr(redacted_value, ?9) > 0) ${order} LIMIT max(?2, 0)`),
    place: db.prepare(
      `SELECT create_time_ms AS createTimeMs, id ${keys} ${order} LIMIT 1 OFFSET max(?2, 1) - 1`,
    ),
  };
}

function prepare(db: DatabaseSync) {
  return {
    // A null request id equals nothing, not even another null.
    findByRequest: db.prepare("SELECT id FROM keys WHERE team_id = ? AND request_id = ?"),
    countActive: db.prepare("SELECT count(*) AS n FROM keys WHERE team_id = ? AND revoke_time_ms IS NULL"),
    countRevoked: db.prepare(`SELECT count(*) AS n FROM (
      SELECT 1 FROM keys WHERE team_id = ? AND revoke_time_ms IS NOT NULL LIMIT ?)`),
    insert: db.prepare(`INSERT INTO keys (${names}, label_folded) VALUES (${values}, :labelFolded)`),
    find: db.prepare(`SELECT ${select} FROM keys WHERE id = ?`),
    all: prepareLists(db, ""),
    active: prepareLists(db, "AND revoke_time_ms IS NULL"),
    revoke: db.prepare(`UPDATE keys SET revoke_time_ms = coalesce(revoke_time_ms, ?1),
      revoked_by = coalesce(revoked_by, ?2), version = 2
      WHERE id = ?3 AND team_id = ?4 RETURNING ${select}`),
    delete: db.prepare("DELETE FROM keys WHERE id = ?"),
    deleteAll: db.prepare(`DELETE FROM keys WHERE id IN (
      SELECT id FROM keys WHERE team_id = ? LIMIT max(?, 0)) RETURNING id`),
    recordUse: db.prepare(`UPDATE keys SET last_use_time_ms = ?1
      WHERE id = ?2 AND coalesce(last_use_time_ms, -1) < ?1`),
    secretVersions: db.prepare("SELECT DISTINCT secret_version FROM keys"),
  };
}

function keyOf(row: Record<string, unknown> | undefined): KeyRecord | undefined {
  return row && checkKey(row);
}

function checkKey(row: Record<string, unknown>): KeyRecord {
  return checkRecord(keyRecord, row, `keys/${row.id}`);
}
