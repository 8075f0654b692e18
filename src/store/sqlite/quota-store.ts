import type { DatabaseSync } from "node:sqlite";
import {
  changedQuota,
  emptyQuota,
  grantQuota,
  type QuotaChange,
  type QuotaPlace,
  type QuotaRecord,
  type QuotaStore,
  quotaRecord,
} from "../../quota/quota-store.ts";
import { Refusal } from "../../refusal/refusal.ts";
import { checkRecord } from "../records.ts";
import { answer, columnsOf, parseJson, write, writeAside } from "./statement.ts";

/** The quotas in SQLite. Each method is one transaction; lists and holds are JSON columns. */
export function createQuotaStore(db: DatabaseSync): QuotaStore {
  const statement = prepare(db);

  function find(id: string): QuotaRecord | undefined {
    const row = statement.find.get(id);
    if (!row) return undefined;
    const json = { grantIds: parseJson(row.grantIds), holds: parseJson(row.holds) };
    return checkRecord(quotaRecord, { ...row, ...json }, `quotas/${id}`);
  }

  function changeOne(place: QuotaPlace, change: QuotaChange): QuotaRecord {
    const found = find(place.id) ?? emptyQuota(place);
    const changed = changedQuota(found, change);
    if (!changed) return found;
    const { grantIds, holds, ...row } = checkRecord(quotaRecord, changed, `quotas/${place.id}`);
    statement.put.run({ ...row, grantIds: JSON.stringify(grantIds), holds: JSON.stringify(holds) });
    return changed;
  }

  return {
    change: (changes) =>
      writeAside(db, () => changes.map(({ place, change }) => settled(() => changeOne(place, change)))),
    grant: (place, grant) => write(db, () => changeOne(place, (record) => grantQuota(record, grant))),
    find: (id) => answer(() => find(id)),
    deleteBefore: ({ beforeMs, limit }) =>
      writeAside(db, () => Number(statement.deleteBefore.run(beforeMs, limit).changes)),
    deleteOfTeam: (teamId, limit) =>
      writeAside(db, () => Number(statement.deleteOfTeam.run(teamId, limit).changes)),
  };
}

/**
 * One damaged record must not stop the changes of others. An error of SQLite undoes all of them.
 */
function settled<T>(work: () => T): PromiseSettledResult<T> {
  try {
    return { status: "fulfilled", value: work() };
  } catch (reason) {
    if (reason instanceof Refusal) return { status: "rejected", reason };
    throw reason;
  }
}

const { names, values, select } = columnsOf(quotaRecord.shape);
const { claimed, granted, grantIds, holds, version } = quotaRecord.shape;
const { setExcluded } = columnsOf({ claimed, granted, grantIds, holds, version });

function prepare(db: DatabaseSync) {
  const removal = (where: string) =>
    db.prepare(`DELETE FROM quotas WHERE id IN (SELECT id FROM quotas WHERE ${where} ?1 LIMIT max(?2, 0))`);
  return {
    find: db.prepare(`SELECT ${select} FROM quotas WHERE id = ?`),
    put: db.prepare(
      `INSERT INTO quotas (${names}) VALUES (${values}) ON CONFLICT DO UPDATE SET ${setExcluded}`,
    ),
    deleteBefore: removal("start_time_ms <"),
    deleteOfTeam: removal("team_id ="),
  };
}
