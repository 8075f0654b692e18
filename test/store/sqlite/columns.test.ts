import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { z } from "zod";
import { runRecord } from "#src/run/kept/run-store.ts";
import { sessionRecord } from "#src/sign-in/sign-in-store.ts";
import { copiedNames, copiedShapes } from "#src/store/records.ts";
import { createSchema } from "#src/store/sqlite/schema.ts";
import { columnOf, columnsOf } from "#src/store/sqlite/statement.ts";

const db = new DatabaseSync(":memory:");
createSchema(db);

/** The fields of each table's rows. */
const tables: Record<string, z.ZodRawShape> = {
  apps: copiedShapes.apps.shape,
  audit_events: copiedShapes.auditEvents.shape,
  keys: { ...copiedShapes.keys.shape, labelFolded: z.string() },
  members: copiedShapes.members.shape,
  preview: copiedShapes.preview.shape,
  quotas: copiedShapes.quotas.shape,
  runs: { ...runRecord.shape, text: z.instanceof(Uint8Array).nullable() },
  service_tokens: copiedShapes.serviceTokens.shape,
  sessions: sessionRecord.shape,
  teams: copiedShapes.teams.shape,
  usage_days: copiedShapes.usageDays.shape,
  usage_hours: copiedShapes.usageHours.shape,
  users: copiedShapes.users.shape,
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
    const isWholeNumber = z.safeParse(type, 1).success || z.safeParse(type, true).success;
    const isBytes = z.safeParse(type, new Uint8Array()).success;
    const right = isBytes ? "BLOB" : isWholeNumber ? "INTEGER" : "TEXT";
    expect({ field, type: column?.type }).toEqual({ field, type: right });
  }
});

test("a field of a record is named as a column, as a parameter and as itself", () => {
  expect(columnsOf({ id: z.string(), inventedField: z.string().nullable() })).toMatchObject({
    names: "id, invented_field",
    values: ":id, :inventedField",
    select: "id AS id, invented_field AS inventedField",
  });
});
