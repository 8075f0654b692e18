import type { DatabaseSync } from "node:sqlite";
import {
  givenOf,
  type QuotaClaim,
  type QuotaGiven,
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

  function put(changed: QuotaRecord): QuotaRecord {
    const { grantIds, holds, ...row } = checkRecord(quotaRecord, changed, `quotas/${changed.id}`);
    statement.put.run({ ...row, grantIds: JSON.stringify(grantIds), holds: JSON.stringify(holds) });
    return changed;
  }

  function claimOne(claim: QuotaClaim): QuotaGiven {
    const found = find(claim.place.id) ?? emptyOf(claim.place);
    const given = givenOf(found, claim);
    if (given === 0) return { given, record: found };
    const others = Object.entries(found.holds).filter(([owner]) => !claim.gone.includes(owner));
    const own = { seq: claim.seq, unspent: claim.held + given };
    const holds = { ...Object.fromEntries(others), [claim.owner]: own };
    return { given, record: put({ ...found, claimed: found.claimed + given, holds }) };
  }

  return {
    claim: (claims) => writeAside(db, () => claims.map((claim) => settled(() => claimOne(claim)))),
    giveBack: (orders) =>
      writeAside(db, () => {
        for (const { id, owner, seq, unspent } of orders) {
          const found = find(id);
          const { [owner]: own, ...holds } = found?.holds ?? {};
          if (found && own?.seq === seq) put({ ...found, claimed: found.claimed - unspent, holds });
        }
      }),
    grant: (place, { requests, requestId }) =>
      write(db, () => {
        const found = find(place.id) ?? emptyOf(place);
        if (found.grantIds.includes(requestId)) return found;
        const grantIds = [...found.grantIds, requestId];
        return put({ ...found, granted: found.granted + requests, grantIds });
      }),
    find: (id) => answer(() => find(id)),
    newestStartMs: (period) =>
      answer(() => {
        const found = statement.newest.get(period)?.start_time_ms;
        return typeof found === "number" ? found : undefined;
      }),
    deleteBefore: ({ beforeMs, limit }) =>
      writeAside(db, () => Number(statement.deleteBefore.run(beforeMs, limit).changes)),
    deleteOfTeam: (teamId, limit) =>
      writeAside(db, () => Number(statement.deleteOfTeam.run(teamId, limit).changes)),
  };
}

function emptyOf(place: QuotaPlace): QuotaRecord {
  return { ...place, claimed: 0, granted: 0, grantIds: [], holds: {} };
}

/** One damaged record must not stop the claims of others. An error of SQLite undoes all of them. */
function settled<T>(work: () => T): PromiseSettledResult<T> {
  try {
    return { status: "fulfilled", value: work() };
  } catch (reason) {
    if (reason instanceof Refusal) return { status: "rejected", reason };
    throw reason;
  }
}

const { names, values, select } = columnsOf(quotaRecord.shape);
const { claimed, granted, grantIds, holds } = quotaRecord.shape;
const { setExcluded } = columnsOf({ claimed, granted, grantIds, holds });

function prepare(db: DatabaseSync) {
  const removal = (where: string) =>
    db.prepare(`DELETE FROM quotas WHERE id IN (SELECT id FROM quotas WHERE ${where} ?1 LIMIT max(?2, 0))`);
  return {
    find: db.prepare(`SELECT ${select} FROM quotas WHERE id = ?`),
    put: db.prepare(
      `INSERT INTO quotas (${names}) VALUES (${values}) ON CONFLICT DO UPDATE SET ${setExcluded}`,
    ),
    newest: db.prepare("SELECT max(start_time_ms) AS start_time_ms FROM quotas WHERE period = ?"),
    deleteBefore: removal("start_time_ms <"),
    deleteOfTeam: removal("team_id ="),
  };
}
