import type { DatabaseSync } from "node:sqlite";
import type { KeyRecord, KeyStore } from "../../keys/key-store.ts";
import { activeKey, checkKey, keyColumns, keyOf } from "./checked-key.ts";
import { answer, writeAside } from "./statement.ts";

/**
 * `KeyStore.settlePending`. A rotation is one transaction here, so only a store that was written in
 * another way has a key that is pending.
 */
export function settlePendingKeys(db: DatabaseSync): KeyStore["settlePending"] {
  const statement = prepare(db);
  return async ({ sinceMs, revokeTimeMs, revokedBy, limit, before }) => {
    const pending = await answer(() => statement.find.all(sinceMs, limit));
    // Most often there is none, and a look needs no lock.
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

function prepare(db: DatabaseSync) {
  const { select } = keyColumns;
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
