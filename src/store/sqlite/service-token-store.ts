import type { DatabaseSync } from "node:sqlite";
import {
  type ServiceTokenRecord,
  type ServiceTokenStore,
  serviceTokenRecord,
} from "../../service-tokens/service-token-store.ts";
import { checkRecord } from "../records.ts";
import { answer, columnsOf, parseJson, write, writeAside, writeRevocation } from "./statement.ts";

/** The service tokens in SQLite. */
export function createServiceTokenStore(db: DatabaseSync): ServiceTokenStore {
  const statement = prepare(db);

  return {
    insert: (token, { acceptedMax }) =>
      write(db, () => {
        if (statement.findAccepted.get(token.name)) return { kind: "name_used" };
        if (Number(statement.countAccepted.get()?.n) >= acceptedMax) return { kind: "limit_reached" };
        const { teamIds, ...row } = checkRecord(serviceTokenRecord, token, `service_tokens/${token.id}`);
        statement.insert.run({ ...row, teamIds: JSON.stringify(teamIds) });
        return { kind: "inserted" };
      }),
    find: (tokenId) => answer(() => tokenOf(statement.find.get(tokenId))),
    list: ({ limit, after = newest, includeRevoked }) =>
      answer(() => {
        const list = includeRevoked ? statement.all : statement.accepted;
        return list.all(after.createTimeMs, after.id, limit).map(checkToken);
      }),
    revoke: ({ tokenId, revokeTimeMs, revokedBy }) =>
      writeRevocation(db, () => {
        statement.revoke.run(revokeTimeMs, revokedBy, tokenId);
        return tokenOf(statement.find.get(tokenId));
      }),
    delete: (tokenId) => writeRevocation(db, () => void statement.delete.run(tokenId)),
    leaveTeam: (teamId) =>
      writeRevocation(db, () => {
        const naming = statement.naming.all(teamId).map(checkToken);
        return naming.map((token) => {
          const left = token.teamIds.filter((each) => each !== teamId);
          return checkToken(statement.setTeams.get(JSON.stringify(left), token.id) ?? {});
        });
      }),
    recordUses: (lastUseTimeMsById) =>
      writeAside(db, () => {
        for (const [tokenId, timeMs] of lastUseTimeMsById) statement.recordUse.run(timeMs, tokenId);
      }),
    secretVersions: () =>
      answer(() => statement.secretVersions.all().map(({ secret_version }) => String(secret_version))),
  };
}

const { names, values, select } = columnsOf(serviceTokenRecord.shape);

const newest = { createTimeMs: Number.MAX_SAFE_INTEGER, id: "" };

function prepare(db: DatabaseSync) {
  const list = (condition: string) =>
    db.prepare(`SELECT ${select} FROM service_tokens WHERE (create_time_ms, id) < (?1, ?2) ${condition}
      ORDER BY create_time_ms DESC, id DESC LIMIT max(?3, 0)`);
  return {
    findAccepted: db.prepare("SELECT 1 FROM service_tokens WHERE name = ? AND revoke_time_ms IS NULL"),
    countAccepted: db.prepare("SELECT count(*) AS n FROM service_tokens WHERE revoke_time_ms IS NULL"),
    insert: db.prepare(`INSERT INTO service_tokens (${names}) VALUES (${values})`),
    find: db.prepare(`SELECT ${select} FROM service_tokens WHERE id = ?`),
    all: list(""),
    accepted: list("AND revoke_time_ms IS NULL"),
    revoke: db.prepare(`UPDATE service_tokens SET revoke_time_ms = ?1, revoked_by = ?2, version = version + 1
      WHERE id = ?3 AND revoke_time_ms IS NULL`),
    delete: db.prepare("DELETE FROM service_tokens WHERE id = ?"),
    naming: db.prepare(`SELECT ${select} FROM service_tokens WHERE revoke_time_ms IS NULL
      AND EXISTS (SELECT 1 FROM json_each(team_ids) WHERE value = ?)`),
    setTeams: db.prepare(`UPDATE service_tokens SET team_ids = ?1, version = version + 1
      WHERE id = ?2 RETURNING ${select}`),
    recordUse: db.prepare(`UPDATE service_tokens SET last_use_time_ms = ?1
      WHERE id = ?2 AND coalesce(last_use_time_ms, -1) < ?1`),
    secretVersions: db.prepare(`SELECT DISTINCT secret_version FROM service_tokens
      WHERE revoke_time_ms IS NULL`),
  };
}

function tokenOf(row: Record<string, unknown> | undefined): ServiceTokenRecord | undefined {
  return row && checkToken(row);
}

function checkToken(row: Record<string, unknown>): ServiceTokenRecord {
  return checkRecord(
    serviceTokenRecord,
    { ...row, teamIds: parseJson(row.teamIds) },
    `service_tokens/${row.id}`,
  );
}
