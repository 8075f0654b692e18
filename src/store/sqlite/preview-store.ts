import type { DatabaseSync } from "node:sqlite";
import type { PreviewStore } from "../../teams/team-store.ts";
import { answer, write, writeRevocation } from "./statement.ts";

/** Preview access in SQLite: one row for each user with access. */
export function createPreviewStore(db: DatabaseSync): PreviewStore {
  const grant = db.prepare("INSERT INTO preview VALUES (?) ON CONFLICT DO NOTHING");
  const withdraw = db.prepare("DELETE FROM preview WHERE email = ?");
  const has = db.prepare("SELECT 1 FROM preview WHERE email = ?");
  const list = db.prepare("SELECT email FROM preview WHERE email > ? ORDER BY email LIMIT max(?, 0)");

  return {
    set: (email, granted) =>
      granted ? write(db, () => void grant.run(email)) : writeRevocation(db, () => void withdraw.run(email)),
    has: (email) => answer(() => has.get(email) !== undefined),
    list: ({ limit, after }) => answer(() => list.all(after ?? "", limit).map((row) => String(row.email))),
  };
}
