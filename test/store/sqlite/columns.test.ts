import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { z } from "zod";
import type { KeyRecord } from "#src/keys/key-store.ts";
import {
  appRecord,
  auditRecord,
  backgroundRecord,
  copiedNames,
  keyRecord,
  memberRecord,
  runRecord,
  serviceTokenRecord,
  sessionRecord,
  teamRecord,
  usageDayRecord,
  usageHourRecord,
  userRecord,
} from "#src/store/records.ts";
import { createSchema } from "#src/store/sqlite/schema.ts";
import { columnOf, columnsOf } from "#src/store/sqlite/statement.ts";

const db = new DatabaseSync(":memory:");
createSchema(db);

/** The columns of each table beside the fields of its records. */
const tables: Record<string, z.ZodRawShape> = {
  apps: { ...appRecord.shape, deleted: z.int() },
  audit_events: auditRecord.shape,
  background_runs: { ...backgroundRecord.shape, text: z.instanceof(Uint8Array).nullable() },
  keys: { ...keyRecord.shape, labelFolded: z.string() },
  members: memberRecord.shape,
  preview: { email: z.string() },
  run_records: { ...runRecord.shape, text: z.instanceof(Uint8Array).nullable() },
  service_tokens: serviceTokenRecord.shape,
  sessions: sessionRecord.shape,
  teams: { ...teamRecord.shape, deleted: z.int() },
  usage_days: usageDayRecord.shape,
  usage_hours: usageHourRecord.shape,
  users: userRecord.shape,
};

test("every table of the schema has a shape", () => {
  const found = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").all();
  expect(found.map(({ name }) => name)).toEqual(Object.keys(tables));
});

test("every table is copied to MongoDB, but for the sessions: people sign in there anew", () => {
  expect([...copiedNames.map(columnOf), "sessions"].sort()).toEqual(Object.keys(tables));
});

test.each(Object.entries(tables))("the columns of %s are the fields of its records", (table, shape) => {
  const columns = db
    .prepare('SELECT name, type, "notnull" AS isFilled, pk FROM pragma_table_info(?)')
    .all(table);
  expect(columns.map(({ name }) => name).sort()).toEqual(columnsOf(shape).names.split(", ").sort());
  for (const [field, type] of Object.entries(shape)) {
    const column = columns.find(({ name }) => name === columnsOf({ [field]: type }).names);
    const mayBeNull = z.safeParse(type, null).success;
    expect({ field, mayBeNull }).toEqual({ field, mayBeNull: column?.isFilled === 0 && column.pk === 0 });
    const isWholeNumber = z.safeParse(type, 1).success;
    const isBytes = z.safeParse(type, new Uint8Array()).success;
    const right = isBytes ? "BLOB" : isWholeNumber ? "INTEGER" : "TEXT";
    expect({ field, type: column?.type }).toEqual({ field, type: right });
  }
});

test("a field that was added to a record's type does not compile until its shape has it", () => {
  interface GrownKey extends KeyRecord {
    readonly inventedField: string | null;
  }
  const grown = z.strictObject({ ...keyRecord.shape, inventedField: z.string().nullable() });
  grown satisfies z.ZodType<GrownKey>;
  // @ts-expect-error The shape has no such field.
  keyRecord satisfies z.ZodType<GrownKey>;
  expect(columnsOf(grown.shape)).toMatchObject({
    names: expect.stringMatching(/^id, team_id, .*, invented_field$/),
    values: expect.stringMatching(/^:id, :teamId, .*, :inventedField$/),
    select: expect.stringMatching(/^id AS id, team_id AS teamId, .*, invented_field AS inventedField$/),
  });
});
