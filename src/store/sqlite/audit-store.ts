import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { AuditEvent, AuditQuery, AuditStore } from "../../audit/audit-store.ts";
import { whileChanging } from "../change-under-way.ts";
import { auditRecord, checkRecord } from "../records.ts";
import { insertEvent } from "./change-event.ts";
import { columnsOf } from "./columns.ts";
import { answer, writeAside } from "./statement.ts";

/** The events in SQLite. Each is in the transaction of its change. */
export function createAuditStore(db: DatabaseSync): AuditStore {
  const insert = insertEvent(db);
  const write = db.prepare(`INSERT INTO audit_events (${names}) VALUES (${values})
    ON CONFLICT DO UPDATE SET ${setExcluded}`);
  const deleteBefore = db.prepare(`DELETE FROM audit_events WHERE id IN (
    SELECT id FROM audit_events WHERE time_ms < ?1 ORDER BY time_ms, id LIMIT max(?2, 0))`);
  const lists = new Map<string, StatementSync>();

  /** There are few kinds of filters, so there are few statements. */
  function listOf(conditions: readonly string[]): StatementSync {
    const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
    const known = lists.get(where);
    if (known) return known;
    const made = db.prepare(
      `SELECT ${select} FROM audit_events ${where} ORDER BY time_ms DESC, id DESC LIMIT max(:limit, 0)`,
    );
    lists.set(where, made);
    return made;
  }

  return {
    during: whileChanging,
    write: (events) =>
      writeAside(db, () => {
        for (const event of events) write.run({ ...checkEvent(event) });
      }),
    insert: (event) => writeAside(db, () => insert.run({ ...checkEvent(event) }).changes === 1),
    list: ({ after, limit, ...filter }) =>
      answer(() => {
        const given = Object.keys(conditions).filter((name) => name in filter);
        const place = after && { afterMs: after.timeMs, afterId: after.id };
        const texts = given.map((name) => conditions[name as keyof typeof conditions]);
        const list = listOf(place ? [...texts, "(time_ms, id) < (:afterMs, :afterId)"] : texts);
        return list.all({ ...filter, ...place, limit }).map(checkEvent);
      }),
    deleteBefore: ({ beforeMs, limit }) =>
      writeAside(db, () => Number(deleteBefore.run(beforeMs, limit).changes)),
  };
}

const { names, values, select } = columnsOf(auditRecord.shape);
const { outcome, reason, count, teamId, target, detail } = auditRecord.shape;
const { setExcluded } = columnsOf({ outcome, reason, count, teamId, target, detail });

const conditions = {
  teamId: "team_id = :teamId",
  actor: "actor = :actor",
  action: "action = :action",
  fromMs: "time_ms >= :fromMs",
  beforeMs: "time_ms < :beforeMs",
} satisfies Record<keyof Omit<AuditQuery, "limit" | "after">, string>;

function checkEvent(row: unknown): AuditEvent {
  return checkRecord(auditRecord, row, "audit_events");
}
