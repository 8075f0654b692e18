import type { DatabaseSync } from "node:sqlite";
import type { TeamRecord, TeamStore } from "../../teams/team-store.ts";
import { checkRecord, teamRecord } from "../records.ts";
import { answer, write } from "./statement.ts";

/** The teams in SQLite. */
export function createTeamStore(db: DatabaseSync): TeamStore {
  const insert = db.prepare(`INSERT INTO teams VALUES (:id, :displayName, :plan, :createTimeMs, :version)
    ON CONFLICT DO NOTHING`);
  const find = db.prepare(`SELECT ${columns} FROM teams WHERE id = ?`);
  const list = db.prepare(`SELECT ${columns} FROM teams WHERE id > ? ORDER BY id LIMIT max(?, 0)`);
  const update = db.prepare(`UPDATE teams
    SET display_name = coalesce(?1, display_name), plan = coalesce(?2, plan), version = version + 1
    WHERE id = ?3 RETURNING ${columns}`);

  return {
    insert: (team) =>
      write(db, () => insert.run({ ...checkRecord(teamRecord, team, `teams/${team.id}`) }).changes === 1),
    find: (teamId) => answer(() => teamOf(find.get(teamId))),
    list: ({ limit, after }) => answer(() => list.all(after ?? "", limit).map(checkTeam)),
    update: (teamId, { displayName, plan }) =>
      write(db, () => teamOf(update.get(displayName ?? null, plan ?? null, teamId))),
  };
}

const columns = "id, display_name AS displayName, plan, create_time_ms AS createTimeMs, version";

function teamOf(row: Record<string, unknown> | undefined): TeamRecord | undefined {
  return row && checkTeam(row);
}

function checkTeam(row: Record<string, unknown>): TeamRecord {
  return checkRecord(teamRecord, row, `teams/${row.id}`);
}
