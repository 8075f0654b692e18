import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { AuditEvent, PendingEvent } from "../../audit/audit-store.ts";
import { auditRecord, checkRecord } from "../records.ts";
import { columnsOf } from "./columns.ts";

const { names, values } = columnsOf(auditRecord.shape);

interface Statements {
  readonly insert: StatementSync;
  readonly totalChanges: StatementSync;
}

const statements = new WeakMap<DatabaseSync, Statements>();

/** The statement that writes an event whose id is new, and ignores one whose id is not. */
export function insertEvent(db: DatabaseSync): StatementSync {
  return prepared(db).insert;
}

/** How many rows this connection has changed. */
export function totalChanges(db: DatabaseSync): number {
  return Number(prepared(db).totalChanges.get()?.n);
}

/**
 * Does the work in the transaction that is open, and adds the event if the work has changed a row.
 * Returns the outcome that was written, which counts once the transaction is durable.
 */
export function withEvent<T>(
  db: DatabaseSync,
  event: PendingEvent,
  work: () => T,
): { readonly result: T; readonly outcome: AuditEvent["outcome"] | undefined } {
  const before = totalChanges(db);
  const result = work();
  if (totalChanges(db) === before) return { result, outcome: undefined };
  const record = checkRecord(auditRecord, event.record(), "audit_events");
  insertEvent(db).run({ ...record });
  return { result, outcome: record.outcome };
}

function prepared(db: DatabaseSync): Statements {
  const known = statements.get(db);
  if (known) return known;
  const made = {
    insert: db.prepare(`INSERT INTO audit_events (${names}) VALUES (${values}) ON CONFLICT DO NOTHING`),
    totalChanges: db.prepare("SELECT total_changes() AS n"),
  };
  statements.set(db, made);
  return made;
}
