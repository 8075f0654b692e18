import type { DatabaseSync } from "node:sqlite";
import type { MemberStore } from "../../teams/team-store.ts";
import { checkRecord, memberRecord } from "../records.ts";
import { columnsOf } from "./columns.ts";
import { answer, write, writeRevocation } from "./statement.ts";

/** The members of teams in SQLite. */
export function createMemberStore(db: DatabaseSync): MemberStore {
  // Returns nothing, and changes no row, where the member is there. So a repeat writes no event.
  const add = db.prepare(`INSERT INTO members (${names}) VALUES (${values})
    ON CONFLICT DO NOTHING RETURNING ${select}`);
  const remove = db.prepare("DELETE FROM members WHERE team_id = ? AND email = ?");
  const removeAll = db.prepare(`DELETE FROM members WHERE team_id = ?1 AND email IN (
    SELECT email FROM members WHERE team_id = ?1 LIMIT max(?2, 0))`);
  const find = db.prepare(`SELECT ${select} FROM members WHERE team_id = ? AND email = ?`);
  const list = db.prepare(`SELECT ${select} FROM members
    WHERE team_id = ? AND email > ? ORDER BY email LIMIT max(?, 0)`);
  const teamIdsOf = db.prepare(
    "SELECT team_id FROM members WHERE email = ? ORDER BY team_id LIMIT max(?, 0)",
  );
  const check = (row: unknown) => checkRecord(memberRecord, row, "members");

  return {
    add: (member) =>
      write(db, () => check(add.get({ ...check(member) }) ?? find.get(member.teamId, member.email))),
    remove: (teamId, email) => writeRevocation(db, () => remove.run(teamId, email).changes === 1),
    removeAll: (teamId, limit) => writeRevocation(db, () => Number(removeAll.run(teamId, limit).changes)),
    find: (teamId, email) =>
      answer(() => {
        const row = find.get(teamId, email);
        return row && check(row);
      }),
    list: ({ teamId, limit, after }) => answer(() => list.all(teamId, after ?? "", limit).map(check)),
    teamIdsOf: (email, limit) =>
      answer(() => teamIdsOf.all(email, limit).map(({ team_id }) => String(team_id))),
  };
}

const { names, values, select } = columnsOf(memberRecord.shape);
