import type { DatabaseSync } from "node:sqlite";
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
        statement.insert.run({ ...checkRecord(keyRecord, key, `keys/${key.id}`) });
        return { kind: "inserted" };
      }),
    find: (keyId) => answer(() => keyOf(statement.find.get(keyId))),
    list: ({ teamId, limit, after, includeRevoked }) =>
      answer(() => {
        const list = includeRevoked ? statement.listAll : statement.listActive;
        const { createTimeMs, id } = after ?? { createTimeMs: Number.MAX_SAFE_INTEGER, id: "" };
        return list.all(teamId, createTimeMs, id, limit).map((row) => checkKey(row));
      }),
    countActive: (teamId) => answer(() => countActive(teamId)),
    revoke: ({ teamId, keyId, revokeTimeMs, revokedBy }) =>
      write(db, () => keyOf(statement.revoke.get(revokeTimeMs, revokedBy, keyId, teamId))),
    recordUses: (lastUseTimeMsById) =>
      write(db, () => {
        for (const [keyId, timeMs] of lastUseTimeMsById) statement.recordUse.run(timeMs, keyId);
      }),
    secretVersions: () =>
      answer(() => statement.secretVersions.all().map(({ secret_version }) => String(secret_version))),
  };
}

const { names, values, select } = columnsOf(keyRecord.shape);

function prepare(db: DatabaseSync) {
  const list = (condition: string) =>
    db.prepare(`SELECT ${select} FROM keys
      WHERE team_id = ?1 AND (create_time_ms, id) < (?2, ?3) ${condition}
      ORDER BY create_time_ms DESC, id DESC LIMIT max(?4, 0)`);
  return {
    // A null request id equals nothing, not even another null.
    findByRequest: db.prepare("SELECT id FROM keys WHERE team_id = ? AND request_id = ?"),
    countActive: db.prepare("SELECT count(*) AS n FROM keys WHERE team_id = ? AND revoke_time_ms IS NULL"),
    insert: db.prepare(`INSERT INTO keys (${names}) VALUES (${values})`),
    find: db.prepare(`SELECT ${select} FROM keys WHERE id = ?`),
    listAll: list(""),
    listActive: list("AND revoke_time_ms IS NULL"),
    revoke: db.prepare(`UPDATE keys SET revoke_time_ms = coalesce(revoke_time_ms, ?1),
      revoked_by = coalesce(revoked_by, ?2), version = 2
      WHERE id = ?3 AND team_id = ?4 RETURNING ${select}`),
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
