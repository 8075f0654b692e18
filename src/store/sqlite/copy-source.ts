import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import type { z } from "zod";
import { Refusal } from "../../refusal/refusal.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { type CopiedBatch, type CopiedName, copiedNames, copiedShapes } from "../copied-records.ts";
import { type CopySource, copyBounds } from "../copy-store.ts";
import { checkRecord, RecordMisfit } from "../records.ts";
import { openLockedDatabase, requireOwnFile } from "./locked-database.ts";
import { columnsOf, parseJson } from "./statement.ts";

/**
 * The embedded store of a data folder, to be read whole. No Keyrun can serve it meanwhile. An older
 * store is first brought up to date, as a start does. Throws StartRefused where there is no store,
 * a Keyrun serves it, a newer Keyrun wrote it, or it can't be used; and while it is read, where a
 * record is damaged.
 */
export function openSqliteSource({ dataDir }: { readonly dataDir: string }): CopySource {
  const path = join(dataDir, "keyrun.db");
  if (!existsSync(path)) {
    throw new StartRefused(
      `There is no store in ${dataDir}, so there is nothing to copy. Set KEYRUN_DATA_DIR to the data folder of the Keyrun that moves.`,
    );
  }
  const { db, close } = openLockedDatabase(dataDir, {
    prepare: () => requireOwnFile(path),
    file: () => path,
  });
  return {
    secretVersions: () =>
      db
        .prepare(
          "SELECT secret_version AS version FROM keys UNION SELECT secret_version FROM service_tokens WHERE revoke_time_ms IS NULL",
        )
        .all()
        .map(({ version }) => String(version)),
    batches: () => batchesOf(db),
    close,
  };
}

function* batchesOf(db: DatabaseSync): Generator<CopiedBatch> {
  for (const name of copiedNames) yield* batchesOfOne(db, name);
}

/** A batch ends early where its texts are large. */
function* batchesOfOne(db: DatabaseSync, name: CopiedName): Generator<CopiedBatch> {
  const { select } = columnsOf(copiedShapes[name].shape);
  const shape: z.ZodType<Record<string, unknown>> = copiedShapes[name];
  const { table, key } = tables[name];
  let records: Record<string, unknown>[] = [];
  let characters = 0;
  // In the order of the primary key: each time the store is read, the order is the same.
  for (const row of db.prepare(`SELECT ${select} FROM ${table} ORDER BY ${key}`).iterate()) {
    const record = checkedRecord(shape, row, table);
    records.push(record);
    if (typeof record.text === "string") characters += record.text.length;
    if (records.length < copyBounds.recordsAtOnce && characters < copyBounds.textCharactersAtOnce) continue;
    yield { name, records };
    records = [];
    characters = 0;
  }
  if (records.length > 0) yield { name, records };
}

function checkedRecord(
  shape: z.ZodType<Record<string, unknown>>,
  row: Record<string, unknown>,
  table: string,
): Record<string, unknown> {
  try {
    return checkRecord(shape, recordOf(row), `the table ${table} of the data folder`);
  } catch (thrown) {
    if (!(thrown instanceof Refusal && thrown.cause instanceof RecordMisfit)) throw thrown;
    throw new StartRefused(
      `A record is damaged: ${thrown.cause.message}. The data folder is as it was. Restore it from a backup in which the record is whole, and run the command again.`,
      { cause: thrown },
    );
  }
}

const tables: Readonly<Record<CopiedName, { readonly table: string; readonly key: string }>> = {
  teams: { table: "teams", key: "id" },
  members: { table: "members", key: "team_id, email" },
  preview: { table: "preview", key: "email" },
  users: { table: "users", key: "email" },
  apps: { table: "apps", key: "id" },
  keys: { table: "keys", key: "id" },
  serviceTokens: { table: "service_tokens", key: "id" },
  runRecords: { table: "run_records", key: "id" },
  windowPages: { table: "window_pages", key: "number" },
  usageHours: { table: "usage_hours", key: "team_id, start_time_ms, key_id, incarnation" },
  usageDays: { table: "usage_days", key: "team_id, start_time_ms, key_id" },
  auditEvents: { table: "audit_events", key: "id" },
};

/** The row with the types of its record: SQLite has no true and false, and keeps lists as JSON. */
function recordOf(row: Record<string, unknown>): Record<string, unknown> {
  const { deleted, backend, teamIds, appIds, text } = row;
  return {
    ...row,
    ...(deleted !== undefined && { deleted: deleted === 1 }),
    ...(appIds !== undefined && { appIds: parseJson(appIds) }),
    ...(teamIds !== undefined && { teamIds: parseJson(teamIds) }),
    ...(backend !== undefined && { backend: parseJson(backend) }),
    ...(text instanceof Uint8Array && { text: Buffer.from(text).toString() }),
  };
}
