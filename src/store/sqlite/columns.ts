/** A table's columns as statements name them. */
export interface Columns {
  /** `id, team_id` */
  readonly names: string;
  /** `:id, :teamId`, in the order of `names` */
  readonly values: string;
  /** `id AS id, team_id AS teamId`, so that rows come back as records. */
  readonly select: string;
  /** `id = :id, team_id = :teamId` */
  readonly set: string;
  /** `id = excluded.id, team_id = excluded.team_id`, for an insert that finds the row there. */
  readonly setExcluded: string;
}

/**
 * The columns for the fields of a record: the field `createTimeMs` is the column `create_time_ms`.
 */
export function columnsOf(shape: Readonly<Record<string, unknown>>): Columns {
  const fields = Object.keys(shape).map((field) => ({ field, column: columnOf(field) }));
  const list = (write: (each: { field: string; column: string }) => string) => fields.map(write).join(", ");
  return {
    names: list(({ column }) => column),
    values: list(({ field }) => `:${field}`),
    select: list(({ field, column }) => `${column} AS ${field}`),
    set: list(({ field, column }) => `${column} = :${field}`),
    setExcluded: list(({ column }) => `${column} = excluded.${column}`),
  };
}

function columnOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
