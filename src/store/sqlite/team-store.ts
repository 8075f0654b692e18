import type { DatabaseSync } from "node:sqlite";
import type { TeamRecord, TeamStore } from "../../teams/team-store.ts";
import { checkRecord, teamRecord } from "../records.ts";
import { columnsOf } from "./columns.ts";
import { answer, write } from "./statement.ts";

/** The teams in SQLite. */
export function createTeamStore(db: DatabaseSync): TeamStore {
  const insert = db.prepare(`INSERT INTO teams (${names}) VALUES (${values}) ON CONFLICT DO NOTHING`);
  const find = db.prepare(`SELECT ${select} FROM teams WHERE id = ?`);
  const list = db.prepare(`SELECT ${select} FROM teams WHERE id > ? ORDER BY id LIMIT max(?, 0)`);
  const update = db.prepare(`UPDATE teams
    SET display_name = coalesce(?1, display_name), plan = coalesce(?2, plan), version = version + 1
    WHERE id = ?3 RETURNING ${select}`);

  return {
    insert: (team) =>
      write(db, () => insert.run({ ...checkRecord(teamRecord, team, `teams/${team.id}`) }).changes === 1),
    find: (teamId) => answer(() => teamOf(find.get(teamId))),
    list: ({ limit, after }) => answer(() => list.all(after ?? "", limit).map(checkTeam)),
    update: (teamId, { displayName, plan }) =>
      write(db, () => teamOf(update.get(displayName ?? null, plan ?? null, teamId))),
  };
}

const { names, values, select } = columnsOf(teamRecord.shape);

function teamOf(row: Record<string, unknown> | undefined): TeamRecord | undefined {
  return row && checkTeam(row);
}

function checkTeam(row: Record<string, unknown>): TeamRecord {
  return checkRecord(teamRecord, row, `teams/${row.id}`);
}
