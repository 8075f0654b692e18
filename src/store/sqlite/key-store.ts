import type { DatabaseSync } from "node:sqlite";
import { ownTurn } from "../../base/clock.ts";
import { searchForm } from "../../base/fields.ts";
import { bounds } from "../../bounds.ts";
import {
  type KeyRecord,
  type KeyStore,
  keyRecord,
  type RotateKeyOrder,
  type RotateKeyOutcome,
} from "../../keys/key-store.ts";
import { checkRecord } from "../records.ts";
import { answer, columnsOf, parseJson, write, writeAside, writeRevocation } from "./statement.ts";

/** The keys in SQLite. Each method is one transaction, so nothing is ever half done. */
export function createKeyStore(db: DatabaseSync): KeyStore {
  const statement = prepare(db);
  const countActive = (teamId: string) => Number(statement.countActive.get(teamId)?.n);
  const listsOf = (includeRevoked: boolean | "only") =>
    includeRevoked === "only" ? statement.ended : includeRevoked ? statement.all : statement.active;

  return {
    insert: (key, { activeMax }) =>
      write(db, () => {
        const earlier = statement.findByRequest.get(key.teamId, key.requestId);
        if (earlier) return { kind: "request_id_used", keyId: String(earlier.id) };
        if (countActive(key.teamId) >= activeMax) return { kind: "limit_reached" };
        insertRow(statement, key);
        return { kind: "inserted" };
      }),
    find: (keyId) => answer(() => keyOf(statement.find.get(keyId))),
    list: ({ teamId, limit, after = newest, until = oldest, includeRevoked, match }) =>
      answer(() => {
        const place = [after.createTimeMs, after.id, until.createTimeMs, until.id];
        const { list, search } = listsOf(includeRevoked);
        if (!match) return list.all(teamId, limit, ...place).map(checkKey);
        const { labelPart = null, idStart = null, redactedPart = null } = match;
        return search.all(teamId, limit, ...place, labelPart, idStart, redactedPart).map(checkKey);
      }),
    placeOf: (n, { teamId, after = newest, includeRevoked }) =>
      answer(() => {
        const { place } = listsOf(includeRevoked);
        const row = place.get(teamId, n, after.createTimeMs, after.id);
        return row && { createTimeMs: Number(row.createTimeMs), id: String(row.id) };
      }),
    countActive: (teamId) => answer(() => countActive(teamId)),
    countRevoked: (teamId, max) => answer(() => Number(statement.countRevoked.get(teamId, max)?.n)),
    async markExpired({ nowMs, limit, teamId = null, keyId = null, before }) {
      const due = await answer(() => statement.findDue.all(nowMs, teamId, limit, keyId));
      // Most often there is none, and a read needs no lock.
      if (due.length === 0) return [];
      if (before)
        for (const { id, teamId } of due) await before({ keyId: String(id), teamId: String(teamId) });
      return writeAside(db, () =>
        due.flatMap(({ id }) => statement.markExpired.all(nowMs, String(id))).map(checkKey),
      );
    },
    countExpiring: ({ fromMs, untilMs, max }) =>
      answer(() => Number(statement.countExpiring.get(fromMs, untilMs, max)?.n)),
    update: ({ teamId, keyId, version, change }) =>
      write(db, () => {
        const { label = null, expireTimeMs = null } = change;
        const folded = label === null ? null : searchForm(label);
        return keyOf(statement.update.get(label, folded, expireTimeMs, keyId, teamId, version));
      }),
    rotate: (order) => write(db, () => rotateKey(statement, order)),
    settlePending: settlePendingKeys(db),
    revoke: ({ teamId, keyId, revokeTimeMs, revokedBy }) =>
      writeRevocation(db, () => {
        // A repeat changes no row, so it writes no event.
        const revoked = statement.revoke.get(revokeTimeMs, revokedBy, keyId, teamId);
        return keyOf(revoked ?? statement.findOfTeam.get(keyId, teamId));
      }),
    delete: (keyId) => writeRevocation(db, () => void statement.delete.run(keyId)),
    deleteAll: (teamId, limit) =>
      writeRevocation(db, () => statement.deleteAll.all(teamId, limit).map(({ id }) => String(id))),
    async recordUses(lastUseTimeMsById) {
      // In the order of the table, so that few parts write the same page.
      const ids = [...lastUseTimeMsById.keys()].sort();
      for (let start = 0; start < ids.length; start += bounds.usesWrittenAtOnce) {
        await ownTurn();
        await writeAside(db, () => {
          for (const keyId of ids.slice(start, start + bounds.usesWrittenAtOnce))
            statement.recordUse.run(lastUseTimeMsById.get(keyId) ?? null, keyId);
        });
      }
    },
    secretVersions: () =>
      answer(() => statement.secretVersions.all().map(({ secret_version }) => String(secret_version))),
  };
}

function insertRow({ insert }: Statements, key: KeyRecord): void {
  const { appIds, quota, ...row } = checkRecord(keyRecord, key, `keys/${key.id}`);
  const json = { appIds: JSON.stringify(appIds), quota: quota && JSON.stringify(quota) };
  insert.run({ ...row, ...json, labelFolded: searchForm(row.label) });
}

/** To be done within one transaction. */
function rotateKey(statement: Statements, order: RotateKeyOrder): RotateKeyOutcome {
  const { teamId, keyId, version, successor, end } = order;
  const earlier = statement.findByRequest.get(teamId, successor.requestId);
  if (earlier) return { kind: "request_id_used", keyId: String(earlier.id) };
  const { firstKeyId } = successor;
  if (end.kind === "expire" && statement.findOther.get(teamId, firstKeyId, keyId)) {
    return { kind: "predecessor_active" };
  }
  const ending =
    end.kind === "expire" ? [end.expireTimeMs, null, null] : [null, end.revokeTimeMs, end.revokedBy];
  const row = statement.replace.get(successor.id, ...ending, keyId, teamId, version);
  if (!row) return { kind: "changed" };
  insertRow(statement, successor);
  return { kind: "rotated", replaced: checkKey(row), successor };
}

type Statements = ReturnType<typeof prepare>;

const { names, values, select } = columnsOf(keyRecord.shape);

/** What the rows of active keys have in common. */
const activeKey = "revoke_time_ms IS NULL AND expired_time_ms IS NULL";
const endedKey = "revoke_time_ms IS NOT NULL OR expired_time_ms IS NOT NULL";

const newest = { createTimeMs: Number.MAX_SAFE_INTEGER, id: "" };
const oldest = { createTimeMs: -1, id: "" };

/** The lists of a team's keys; `condition` chooses among all of them. */
function prepareLists(db: DatabaseSync, condition: string) {
  const keys = `FROM keys WHERE team_id = ?1 AND (create_time_ms, id) < (?3, ?4) ${condition}`;
  const page = "AND (create_time_ms, id) >= (?5, ?6) AND pending_since_ms IS NULL";
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
    countActive: db.prepare(`SELECT count(DISTINCT coalesce(first_key_id, id)) AS n FROM keys
      WHERE team_id = ? AND ${activeKey}`),
    countRevoked: db.prepare(`SELECT count(*) AS n FROM (SELECT 1 FROM keys
      WHERE team_id = ? AND (${endedKey}) LIMIT ?)`),
    findDue: db.prepare(`SELECT id, team_id AS teamId FROM keys WHERE expire_time_ms <= ?1 AND ${activeKey}
      AND team_id = coalesce(?2, team_id) AND id = coalesce(?4, id) LIMIT max(?3, 0)`),
    markExpired: db.prepare(`UPDATE keys SET expired_time_ms = ?1, version = version + 1
      WHERE id = ?2 AND expire_time_ms <= ?1 AND ${activeKey} RETURNING ${select}`),
    countExpiring: db.prepare(`SELECT count(*) AS n FROM (SELECT 1 FROM keys
      WHERE expire_time_ms > ? AND expire_time_ms <= ? AND ${activeKey} LIMIT ?)`),
    update:
      db.prepare(`UPDATE keys SET label = coalesce(?1, label), label_folded = coalesce(?2, label_folded),
      expire_time_ms = coalesce(?3, expire_time_ms), version = version + 1
      WHERE id = ?4 AND team_id = ?5 AND version = ?6 RETURNING ${select}`),
    findOther: db.prepare(`SELECT 1 FROM keys WHERE team_id = ? AND ${activeKey}
      AND coalesce(first_key_id, id) = ? AND id <> ? LIMIT 1`),
    replace:
      db.prepare(`UPDATE keys SET replaced_by_key_id = ?1, expire_time_ms = coalesce(?2, expire_time_ms),
      revoke_time_ms = ?3, revoked_by = ?4, version = version + 1 WHERE id = ?5 AND team_id = ?6
      AND version = ?7 AND ${activeKey} AND replaced_by_key_id IS NULL RETURNING ${select}`),
    insert: db.prepare(`INSERT INTO keys (${names}, label_folded) VALUES (${values}, :labelFolded)`),
    find: db.prepare(`SELECT ${select} FROM keys WHERE id = ?`),
    findOfTeam: db.prepare(`SELECT ${select} FROM keys WHERE id = ? AND team_id = ?`),
    all: prepareLists(db, ""),
    active: prepareLists(db, `AND ${activeKey}`),
    ended: prepareLists(db, `AND (${endedKey})`),
    revoke: db.prepare(`UPDATE keys SET revoke_time_ms = ?1, revoked_by = ?2, version = version + 1
      WHERE id = ?3 AND team_id = ?4 AND revoke_time_ms IS NULL RETURNING ${select}`),
    delete: db.prepare("DELETE FROM keys WHERE id = ?"),
    deleteAll: db.prepare(`DELETE FROM keys WHERE id IN (
      SELECT id FROM keys WHERE team_id = ? LIMIT max(?, 0)) RETURNING id`),
    recordUse: db.prepare(`UPDATE keys SET last_use_time_ms = ?1
      WHERE id = ?2 AND coalesce(last_use_time_ms, -1) < ?1`),
    secretVersions: db.prepare("SELECT DISTINCT secret_version FROM keys"),
  };
}

/**
 * `KeyStore.settlePending`. A rotation is one transaction here, so only a store that was written in
 * another way has a key that is pending.
 */
function settlePendingKeys(db: DatabaseSync): KeyStore["settlePending"] {
  const statement = preparePending(db);
  return async ({ sinceMs, revokeTimeMs, revokedBy, limit, before }) => {
    const pending = await answer(() => statement.find.all(sinceMs, limit));
    // Most often there is none, and a read needs no lock.
    if (pending.length === 0) return { completed: [], revoked: [], predecessors: [] };
    const others = pending.filter(({ isDone }) => isDone === 0);
    for (const { id, teamId, isRevoked } of others) {
      if (isRevoked === 0) await before?.({ keyId: String(id), teamId: String(teamId) });
    }
    return writeAside(db, () => {
      const completed = pending.flatMap(({ id }) => statement.complete.all(String(id), sinceMs));
      const revoked = others.flatMap(({ id }) =>
        statement.revoke.all(String(id), sinceMs, revokeTimeMs, revokedBy),
      );
      const naming = completed.map(({ id }) => keyOf(statement.findNaming.get(String(id))));
      const released = revoked.map(({ id }) => keyOf(statement.release.get(String(id))));
      const predecessors = [...naming, ...released].filter((key): key is KeyRecord => key !== undefined);
      return { completed: completed.map(checkKey), revoked: revoked.map(checkKey), predecessors };
    });
  };
}

function preparePending(db: DatabaseSync) {
  const pending = "id = ?1 AND pending_since_ms <= ?2";
  return {
    find: db.prepare(`SELECT id, team_id AS teamId, revoke_time_ms IS NOT NULL AS isRevoked,
      ${isDone} AS isDone FROM keys WHERE pending_since_ms <= ? LIMIT max(?, 0)`),
    complete: db.prepare(`UPDATE keys SET pending_since_ms = NULL, version = version + 1
      WHERE ${pending} AND ${isDone} RETURNING ${select}`),
    revoke: db.prepare(`UPDATE keys SET revoke_time_ms = coalesce(revoke_time_ms, ?3),
      revoked_by = coalesce(revoked_by, ?4), pending_since_ms = NULL,
      request_id = CASE WHEN revoke_time_ms IS NULL THEN NULL ELSE request_id END,
      version = version + (revoke_time_ms IS NULL) WHERE ${pending} RETURNING ${select}`),
    findNaming: db.prepare(`SELECT ${select} FROM keys WHERE ${predecessorOf}`),
    release: db.prepare(`UPDATE keys SET replaced_by_key_id = NULL, version = version + 1
      WHERE ${predecessorOf} AND ${activeKey} RETURNING ${select}`),
  };
}

/** Whether a key is not revoked, and its predecessor names it. */
const isDone = `revoke_time_ms IS NULL AND EXISTS (SELECT 1 FROM keys AS old
  WHERE old.id = keys.replaces_key_id AND old.team_id = keys.team_id AND old.replaced_by_key_id = keys.id)`;

/** The key that names ?1 as the one that replaces it. */
const predecessorOf = `replaced_by_key_id = ?1 AND (id, team_id) =
  (SELECT replaces_key_id, team_id FROM keys WHERE id = ?1)`;

/** The record of a key's row. Throws INTERNAL where the row does not fit. */
function checkKey(row: Record<string, unknown>): KeyRecord {
  const json = { appIds: parseJson(row.appIds), quota: parseJson(row.quota) };
  return checkRecord(keyRecord, { ...row, ...json }, `keys/${row.id}`);
}

function keyOf(row: Record<string, unknown> | undefined): KeyRecord | undefined {
  return row && checkKey(row);
}
