import type { DatabaseSync } from "node:sqlite";
import {
  type MemberStore,
  memberRecord,
  type PreviewStore,
  type TeamRecord,
  type TeamStore,
  teamRecord,
} from "../../teams/team-store.ts";
import { checkRecord } from "../records.ts";
import { answer, columnsOf, write, writeRevocation } from "./statement.ts";

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

/** The members of teams in SQLite. */
export function createMemberStore(db: DatabaseSync): MemberStore {
  // Returns nothing, and changes no row, where the member is there. So a repeat writes no event.
  const add = db.prepare(`INSERT INTO members (${memberColumns.names}) VALUES (${memberColumns.values})
    ON CONFLICT DO NOTHING RETURNING ${memberColumns.select}`);
  const remove = db.prepare("DELETE FROM members WHERE team_id = ? AND email = ?");
  const removeAll = db.prepare(`DELETE FROM members WHERE team_id = ?1 AND email IN (
    SELECT email FROM members WHERE team_id = ?1 LIMIT max(?2, 0))`);
  const find = db.prepare(`SELECT ${memberColumns.select} FROM members WHERE team_id = ? AND email = ?`);
  const list = db.prepare(`SELECT ${memberColumns.select} FROM members
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

const memberColumns = columnsOf(memberRecord.shape);
