import type { DatabaseSync } from "node:sqlite";
import type { TeamRecord, TeamStore } from "../../teams/team-store.ts";
import { checkRecord, teamRecord } from "../records.ts";
import { columnsOf } from "./columns.ts";
import { answer, write, writeRevocation } from "./statement.ts";

/** The teams in SQLite. */
export function createTeamStore(db: DatabaseSync): TeamStore {
  const statement = prepare(db);
  const versionOf = (row: Record<string, unknown> | undefined) => row && Number(row.version);

  return {
    insert: (team) =>
      write(db, () => {
        const row = { ...team, state: "active", version: 1 };
        return teamOf(statement.insert.get({ ...checkRecord(teamRecord, row, `teams/${team.id}`) }));
      }),
    find: (teamId) => answer(() => teamOf(statement.find.get(teamId))),
    list: ({ limit, after }) => answer(() => statement.list.all(after ?? "", limit).map(checkTeam)),
    update: (teamId, { displayName = null, plan = null, state = null }) => {
      const update = () => teamOf(statement.update.get(displayName, plan, state, teamId));
      // Only a deletion changes the state. It takes the mark away again where the team is in use.
      return state === null ? write(db, update) : writeRevocation(db, update);
    },
    delete: (teamId, version) => writeRevocation(db, () => versionOf(statement.delete.get(teamId, version))),
    deletedVersion: (teamId) => answer(() => versionOf(statement.deletedVersion.get(teamId))),
  };
}

const { names, values, select } = columnsOf(teamRecord.shape);
const { id, version, ...facts } = teamRecord.shape;
const { setExcluded } = columnsOf(facts);

function prepare(db: DatabaseSync) {
  return {
    // Where a deleted team has the id, its version is raised. Where a live team has it, nothing is
    // written or returned.
    insert: db.prepare(`INSERT INTO teams (${names}, deleted) VALUES (${values}, 0)
      ON CONFLICT DO UPDATE SET ${setExcluded}, version = version + 1, deleted = 0
      WHERE deleted = 1 RETURNING ${select}`),
    find: db.prepare(`SELECT ${select} FROM teams WHERE id = ? AND deleted = 0`),
    list: db.prepare(`SELECT ${select} FROM teams WHERE id > ? AND deleted = 0 ORDER BY id LIMIT max(?, 0)`),
    update: db.prepare(`UPDATE teams SET display_name = coalesce(?1, display_name),
      plan = coalesce(?2, plan), state = coalesce(?3, state), version = version + 1
      WHERE id = ?4 AND deleted = 0 RETURNING ${select}`),
    delete: db.prepare(`UPDATE teams SET display_name = '', plan = 'free', state = 'active',
      create_time_ms = 0, version = version + 1, deleted = 1
      WHERE id = ? AND version = ? AND state = 'ending' AND deleted = 0 RETURNING version`),
    deletedVersion: db.prepare("SELECT version FROM teams WHERE id = ? AND deleted = 1"),
  };
}

function teamOf(row: Record<string, unknown> | undefined): TeamRecord | undefined {
  return row && checkTeam(row);
}

function checkTeam(row: Record<string, unknown>): TeamRecord {
  return checkRecord(teamRecord, row, `teams/${row.id}`);
}
