import type { DatabaseSync } from "node:sqlite";
import { z } from "zod";
import { runRecord } from "../../run/kept/run-store.ts";
import { sessionRecord } from "../../sign-in/sign-in-store.ts";
import { copiedShapes } from "../records.ts";
import { requireSchemaNumber, schemaNumber } from "../schema-number.ts";
import { columnOf, transaction } from "./statement.ts";

/**
 * Makes the tables of an empty store, all or none of them. Throws StartRefused for a store of
 * another schema.
 */
export function createSchema(db: DatabaseSync): void {
  if (requireKnownSchema(db) === schemaNumber) return;
  transaction(db, () => db.exec(`${schema}; PRAGMA user_version = ${schemaNumber}`));
}

/**
 * The number of the store's schema, which is SQLite's `user_version`; 0 of an empty store. Throws
 * StartRefused for another one than that of this Keyrun.
 */
export function requireKnownSchema(db: DatabaseSync): number {
  const found = Number(db.prepare("PRAGMA user_version").get()?.user_version);
  requireSchemaNumber(found);
  return found;
}

/**
 * A column for each field of a record: `id TEXT NOT NULL, revoke_time_ms INTEGER`. Lists and what
 * has fields of its own are kept as JSON.
 */
function columns({ shape }: z.ZodObject): string {
  const definitions = Object.entries(shape).map(([field, type]) => {
    const accepts = (value: unknown) => z.safeParse(type, value).success;
    const name = `${columnOf(field)} ${accepts(1) || accepts(true) ? "INTEGER" : "TEXT"}`;
    return accepts(null) ? name : `${name} NOT NULL`;
  });
  return definitions.join(", ");
}

const schema = `
  CREATE TABLE keys (${columns(copiedShapes.keys)}, label_folded TEXT NOT NULL,
    PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX keys_by_request ON keys (team_id, request_id) WHERE request_id IS NOT NULL;
  CREATE INDEX keys_by_time ON keys (team_id, create_time_ms, id);
  CREATE INDEX active_keys_by_time ON keys (team_id, create_time_ms, id)
    WHERE revoke_time_ms IS NULL AND expired_time_ms IS NULL;
  CREATE INDEX ended_keys ON keys (team_id) WHERE revoke_time_ms IS NOT NULL OR expired_time_ms IS NOT NULL;
  CREATE INDEX keys_by_secret_version ON keys (secret_version);
  CREATE INDEX pending_keys ON keys (pending_since_ms) WHERE pending_since_ms IS NOT NULL;
  CREATE INDEX keys_by_expiry ON keys (expire_time_ms)
    WHERE expire_time_ms IS NOT NULL AND revoke_time_ms IS NULL AND expired_time_ms IS NULL;

  -- A deleted team stays as a row without its facts, so that its version goes on where the id is used again.
  CREATE TABLE teams (${columns(copiedShapes.teams)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;

  CREATE TABLE members (${columns(copiedShapes.members)}, PRIMARY KEY (team_id, email)) STRICT, WITHOUT ROWID;
  CREATE INDEX members_by_email ON members (email, team_id);

  CREATE TABLE preview (${columns(copiedShapes.preview)}, PRIMARY KEY (email)) STRICT, WITHOUT ROWID;

  -- A deleted app stays as a row without its facts, so that its version goes on where the id is used again.
  CREATE TABLE apps (${columns(copiedShapes.apps)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;

  CREATE TABLE sessions (${columns(sessionRecord)}, PRIMARY KEY (id_hash)) STRICT, WITHOUT ROWID;
  CREATE INDEX sessions_by_user ON sessions (issuer, subject, create_time_ms);
  CREATE INDEX sessions_by_expiry ON sessions (expire_time_ms);
  CREATE INDEX sessions_by_activity ON sessions (last_active_time_ms);

  CREATE TABLE users (${columns(copiedShapes.users)}, PRIMARY KEY (email)) STRICT, WITHOUT ROWID;

  -- With row ids, because a row may be large. The text is a blob: a text of SQLite may end at a NUL.
  CREATE TABLE runs (${columns(runRecord)}, text BLOB, PRIMARY KEY (id), UNIQUE (key_hash)) STRICT;
  CREATE INDEX runs_by_time ON runs (team_id, create_time_ms, text_bytes);
  CREATE INDEX listed_runs ON runs (team_id, create_time_ms DESC, id DESC) WHERE listed = 1;
  CREATE INDEX running_runs ON runs (owner) WHERE state = 'running';
  CREATE INDEX runs_by_expiry ON runs (expire_time_ms);
  CREATE INDEX run_texts_by_expiry ON runs (team_id, expire_time_ms) WHERE text_bytes > 0;

  -- How keys are used. The keys of the tables are in the order in which a team's time is read.
  CREATE TABLE usage_hours (${columns(copiedShapes.usageHours)}, PRIMARY KEY (team_id, start_time_ms, key_id)) STRICT, WITHOUT ROWID;
  CREATE INDEX usage_hours_by_key ON usage_hours (team_id, key_id, start_time_ms);
  CREATE TABLE usage_days (${columns(copiedShapes.usageDays)}, PRIMARY KEY (team_id, start_time_ms, key_id)) STRICT, WITHOUT ROWID;
  CREATE INDEX usage_days_by_key ON usage_days (team_id, key_id, start_time_ms);

  CREATE TABLE quotas (${columns(copiedShapes.quotas)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
  CREATE INDEX quotas_by_team ON quotas (team_id);
  CREATE INDEX quotas_by_time ON quotas (start_time_ms);

  CREATE TABLE service_tokens (${columns(copiedShapes.serviceTokens)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX accepted_service_tokens ON service_tokens (name) WHERE revoke_time_ms IS NULL;
  CREATE INDEX service_tokens_by_time ON service_tokens (create_time_ms, id);

  CREATE TABLE audit_events (${columns(copiedShapes.auditEvents)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
  CREATE INDEX audit_events_by_time ON audit_events (time_ms, id);
  CREATE INDEX audit_events_by_team ON audit_events (team_id, time_ms, id);
  CREATE INDEX audit_events_by_team_and_actor ON audit_events (team_id, actor, time_ms, id);
  CREATE INDEX audit_events_by_team_and_action ON audit_events (team_id, action, time_ms, id);
  CREATE INDEX audit_events_by_actor ON audit_events (actor, time_ms, id);
  CREATE INDEX audit_events_by_action ON audit_events (action, time_ms, id)
  `;
