import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import type { z } from "zod";
import { Refusal } from "../../refusal/refusal.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import {
  type CopiedBatch,
  type CopiedName,
  checkRecord,
  copiedNames,
  copiedShapes,
  RecordMisfit,
} from "../records.ts";
import { openLockedDatabase, requireOwnFile } from "./locked-database.ts";
import { columnOf, columnsOf, parseJson } from "./statement.ts";

/** What one batch has at most, so that it is one message to the database that takes the copy. */
const batchMax = { records: 500, textCharacters: 4 * 1024 * 1024 };

/**
 * The embedded store of a data folder, to be read whole. No Keyrun can serve it meanwhile. An older
 * store is first brought up to date, as a start does. Throws StartRefused where there is no store,
 * a Keyrun serves it, a newer Keyrun wrote it, or it can't be used; and while it is read, where a
 * record is damaged.
 */
export function openSqliteSource({ dataDir }: { readonly dataDir: string }) {
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
  const secretVersions = db.prepare(`SELECT secret_version AS version FROM keys
    UNION SELECT secret_version FROM service_tokens WHERE revoke_time_ms IS NULL`);
  return {
    /** Every secret version that a key or an accepted token names, in no order. */
    secretVersions: () => secretVersions.all().map(({ version }) => String(version)),
    *batches(): Generator<CopiedBatch> {
      for (const name of copiedNames) yield* batchesOf(db, name);
    },
    /** Leaves the store to the next process. */
    close,
  };
}

function* batchesOf(db: DatabaseSync, name: CopiedName): Generator<CopiedBatch> {
  const table = columnOf(name);
  let records: Record<string, unknown>[] = [];
  let characters = 0;
  // Nothing writes meanwhile, so the order is the same each time.
  for (const row of db
    .prepare(`SELECT ${columnsOf(copiedShapes[name].shape).select} FROM ${table}`)
    .iterate()) {
    const record = checkedRecord(copiedShapes[name], row, table);
    records.push(record);
    if (typeof record.text === "string") characters += record.text.length;
    if (records.length < batchMax.records && characters < batchMax.textCharacters) continue;
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

/** The row with the types of its record: SQLite has no true and false, and keeps lists as JSON. */
function recordOf(row: Record<string, unknown>): Record<string, unknown> {
  const typed = Object.entries(row).map(([name, value]) => {
    if (name === "deleted" || name === "listed") return [name, value === 1];
    if (["appIds", "teamIds", "backend", "error", "quota", "grantIds", "holds"].includes(name))
      return [name, parseJson(value)];
    return [name, name === "text" && value instanceof Uint8Array ? Buffer.from(value).toString() : value];
  });
  return Object.fromEntries(typed);
}
