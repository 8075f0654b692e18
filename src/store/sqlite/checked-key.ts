import type { KeyRecord } from "../../keys/key-store.ts";
import { checkRecord, keyRecord } from "../records.ts";
import { columnsOf } from "./columns.ts";
import { parseJson } from "./parse-json.ts";

export const keyColumns = columnsOf(keyRecord.shape);

/** What the rows of active keys have in common. */
export const activeKey = "revoke_time_ms IS NULL AND expired_time_ms IS NULL";

/** The record of a key's row. Throws INTERNAL where the row does not fit. */
export function checkKey(row: Record<string, unknown>): KeyRecord {
  return checkRecord(keyRecord, { ...row, appIds: parseJson(row.appIds) }, `keys/${row.id}`);
}

export function keyOf(row: Record<string, unknown> | undefined): KeyRecord | undefined {
  return row && checkKey(row);
}
