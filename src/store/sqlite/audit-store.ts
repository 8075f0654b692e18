import type { DatabaseSync, StatementSync } from "node:sqlite";
import { type AuditEvent, type AuditQuery, type AuditStore, auditRecord } from "../../audit/audit-store.ts";
import { ownTurn } from "../../base/clock.ts";
import { checkRecord } from "../records.ts";
import { answer, columnsOf, insertEvent, writeAside } from "./statement.ts";

/** The events in SQLite. Each is in the transaction of its change. */
export function createAuditStore(db: DatabaseSync): AuditStore {
  const insert = insertEvent(db);
  const write = db.prepare(`INSERT INTO audit_events (${names}) VALUES (${values})
    ON CONFLICT DO UPDATE SET ${setExcluded}`);
  const deleteBefore = db.prepare(`DELETE FROM audit_events WHERE id IN (
    SELECT id FROM audit_events WHERE time_ms < ?1 ORDER BY time_ms, id LIMIT max(?2, 0))`);
  const lists = new Map<string, StatementSync>();

  /** There are few kinds of filters, so there are few statements. */
  function listOf(columns: string, conditions: readonly string[], limit: string): StatementSync {
    const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
    const text = `SELECT ${columns} FROM audit_events ${where} ORDER BY time_ms DESC, id DESC ${limit}`;
    const known = lists.get(text);
    if (known) return known;
    const made = db.prepare(text);
    lists.set(text, made);
    return made;
  }

  function page({ after, until, limit, ...filter }: AuditQuery & { until?: Place }): AuditEvent[] {
    const { targets, ...same } = filter;
    const list = listOf(select, conditionsOf(filter, { after, until }), "LIMIT max(:limit, 0)");
    const given = { ...same, ...(targets && { targets: JSON.stringify(targets) }) };
    return list.all({ ...given, ...placesIn({ after, until }), limit }).map(checkEvent);
  }

  /** The place of the event that has so many before it, of those that the filter finds. */
  function placeOf(
    count: number,
    { after, ...filter }: Omit<AuditQuery, "limit" | "targets">,
  ): Place | undefined {
    const list = listOf("time_ms, id", conditionsOf(filter, { after }), "LIMIT 1 OFFSET :count");
    const row = list.get({ ...filter, ...placesIn({ after }), count });
    return row && { timeMs: Number(row.time_ms), id: String(row.id) };
  }

  return {
    write: (events) =>
      writeAside(db, () => {
        for (const event of events) write.run({ ...checkEvent(event) });
      }),
    insert: (event) => writeAside(db, () => insert.run({ ...checkEvent(event) }).changes === 1),
    async list(query) {
      const { targets, limit: limitMax, ...filter } = query;
      const { action, ...withoutAction } = filter;
      const isOfBoth = query.actor !== undefined && action !== undefined;
      if (targets === undefined && !isOfBoth) return await answer(() => page(query));
      // No index has the targets, or both of the others, and there may be very many other events.
      const indexed = isOfBoth ? withoutAction : filter;
      const found: AuditEvent[] = [];
      for (let { after } = query; ; ) {
        await ownTurn();
        const place = after && { after };
        const until = await answer(() => placeOf(eventsSearchedAtOnce, { ...indexed, ...place }));
        const limit = limitMax - found.length;
        found.push(...(await answer(() => page({ ...query, ...place, limit, ...(until && { until }) }))));
        if (until === undefined || found.length >= limitMax) return found;
        after = until;
      }
    },
    deleteBefore: ({ beforeMs, limit }) =>
      writeAside(db, () => Number(deleteBefore.run(beforeMs, limit).changes)),
  };
}

const { names, values, select } = columnsOf(auditRecord.shape);
const { outcome, reason, count, teamId, target, detail } = auditRecord.shape;
const { setExcluded } = columnsOf({ outcome, reason, count, teamId, target, detail });

type Place = NonNullable<AuditQuery["after"]>;

/** How many events are read in one tick of the event loop. */
const eventsSearchedAtOnce = 5_000;

const conditions = {
  teamId: "team_id = :teamId",
  actor: "actor = :actor",
  action: "action = :action",
  targets: "target IN (SELECT value FROM json_each(:targets))",
  fromMs: "time_ms >= :fromMs",
  beforeMs: "time_ms < :beforeMs",
} satisfies Record<keyof Omit<AuditQuery, "limit" | "after">, string>;

/** `until` is the last place, and `after` is before the first one. */
function conditionsOf(
  filter: Omit<AuditQuery, "limit" | "after">,
  { after, until }: { after: Place | undefined; until?: Place | undefined },
): string[] {
  const given = Object.keys(conditions).filter((name) => name in filter);
  // Of an actor and an action, SQLite may take the index of either; the place is of the actor's.
  const isOfBoth = filter.actor !== undefined && filter.action !== undefined;
  return [
    ...given.map((name) =>
      isOfBoth && name === "action" ? "+action = :action" : conditions[name as keyof typeof conditions],
    ),
    ...(after ? ["(time_ms, id) < (:afterMs, :afterId)"] : []),
    ...(until ? ["(time_ms, id) >= (:untilMs, :untilId)"] : []),
  ];
}

function placesIn({ after, until }: { after: Place | undefined; until?: Place | undefined }) {
  return {
    ...(after && { afterMs: after.timeMs, afterId: after.id }),
    ...(until && { untilMs: until.timeMs, untilId: until.id }),
  };
}

function checkEvent(row: unknown): AuditEvent {
  return checkRecord(auditRecord, row, "audit_events");
}
