import type { DatabaseSync } from "node:sqlite";
import { type SessionStore, sessionRecord, type UserStore, userRecord } from "../../sign-in/sign-in-store.ts";
import { checkRecord } from "../records.ts";
import { answer, columnsOf, write, writeAside, writeRevocation } from "./statement.ts";

/** The sessions in SQLite. */
export function createSessionStore(db: DatabaseSync): SessionStore {
  const statement = prepare(db);
  const check = (row: unknown) => checkRecord(sessionRecord, row, "sessions");

  return {
    insert: (session, { perUserMax }) =>
      write(db, () => {
        const { issuer, subject, idHash } = session;
        statement.insert.run({ ...check(session) });
        const removed = statement.deleteOldest.all(issuer, subject, idHash, Math.max(perUserMax - 1, 0));
        return removed.map(({ id_hash }) => String(id_hash));
      }),
    find: (idHash) =>
      answer(() => {
        const row = statement.find.get(idHash);
        return row && check(row);
      }),
    // A request that is refused after it touched its session has changed nothing.
    touch: (idHash, lastActiveTimeMs) =>
      writeAside(db, () => void statement.touch.run(lastActiveTimeMs, idHash)),
    delete: (idHash) => writeRevocation(db, () => statement.delete.run(idHash).changes === 1),
    deleteExpired: ({ nowMs, idleSinceMs, limit }) =>
      writeAside(db, () => Number(statement.deleteExpired.run(nowMs, idleSinceMs, limit).changes)),
  };
}

const { names, values, select } = columnsOf(sessionRecord.shape);

function prepare(db: DatabaseSync) {
  return {
    insert: db.prepare(`INSERT INTO sessions (${names}) VALUES (${values})`),
    deleteOldest: db.prepare(`DELETE FROM sessions WHERE id_hash IN (
        SELECT id_hash FROM sessions WHERE issuer = ?1 AND subject = ?2 AND id_hash <> ?3
        ORDER BY create_time_ms DESC, id_hash DESC LIMIT -1 OFFSET ?4)
      RETURNING id_hash`),
    find: db.prepare(`SELECT ${select} FROM sessions WHERE id_hash = ?`),
    touch: db.prepare(
      "UPDATE sessions SET last_active_time_ms = max(last_active_time_ms, ?) WHERE id_hash = ?",
    ),
    delete: db.prepare("DELETE FROM sessions WHERE id_hash = ?"),
    deleteExpired: db.prepare(`DELETE FROM sessions WHERE id_hash IN (
      SELECT id_hash FROM sessions WHERE expire_time_ms <= ?1 OR last_active_time_ms <= ?2 LIMIT max(?3, 0))`),
  };
}

/** The user that each e-mail belongs to, in SQLite. */
export function createUserStore(db: DatabaseSync): UserStore {
  // Updating the user's own row makes RETURNING return it, so nothing is returned only where
  // another user has the e-mail.
  const bind = db.prepare(`INSERT INTO users (${userColumns.names}) VALUES (${userColumns.values})
    ON CONFLICT DO UPDATE SET issuer = excluded.issuer, subject = excluded.subject
    WHERE issuer <> excluded.issuer OR subject = excluded.subject RETURNING email`);
  const findOwn = db.prepare("SELECT 1 FROM users WHERE email = ? AND issuer = ? AND subject = ?");
  const find = db.prepare(`SELECT ${userColumns.select} FROM users WHERE email = ?`);
  const release = db.prepare("DELETE FROM users WHERE email = ?");

  return {
    async bind(user) {
      // Nearly every sign-in finds its own row and needs no durable write.
      const { email, issuer, subject } = user;
      if (await answer(() => findOwn.get(email, issuer, subject) !== undefined)) return true;
      return write(db, () => bind.get({ ...checkRecord(userRecord, user, "users") }) !== undefined);
    },
    find: (email) =>
      answer(() => {
        const row = find.get(email);
        return row && checkRecord(userRecord, row, "users");
      }),
    release: (email) => writeRevocation(db, () => void release.run(email)),
  };
}

const userColumns = columnsOf(userRecord.shape);
