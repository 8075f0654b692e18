import type { DatabaseSync } from "node:sqlite";
import type { UserStore } from "../../sign-in/sign-in-store.ts";
import { checkRecord, userRecord } from "../records.ts";
import { columnsOf } from "./columns.ts";
import { answer, write, writeRevocation } from "./statement.ts";

/** The user that each e-mail belongs to, in SQLite. */
export function createUserStore(db: DatabaseSync): UserStore {
  // Updating the user's own row makes RETURNING return it, so nothing is returned only where
  // another user has the e-mail.
  const bind = db.prepare(`INSERT INTO users (${names}) VALUES (${values})
    ON CONFLICT DO UPDATE SET issuer = excluded.issuer, subject = excluded.subject
    WHERE issuer <> excluded.issuer OR subject = excluded.subject RETURNING email`);
  const findOwn = db.prepare("SELECT 1 FROM users WHERE email = ? AND issuer = ? AND subject = ?");
  const find = db.prepare(`SELECT ${select} FROM users WHERE email = ?`);
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

const { names, values, select } = columnsOf(userRecord.shape);
