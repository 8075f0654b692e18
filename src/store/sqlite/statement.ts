/**
 * How the stores of this folder talk to SQLite: the columns of a record, a read (`answer`), and
 * three kinds of writes. A change that the audit log tells has its event in its transaction.
 */

import type { DatabaseSync, StatementSync } from "node:sqlite";
import { type AuditEvent, auditRecord, type PendingEvent } from "../../audit/audit-store.ts";
import { pendingEvent } from "../../audit/pending-change.ts";
import { createOwnTurns } from "../../base/clock.ts";
import { fail, unavailable } from "../../refusal/refusal.ts";
import { checkRecord } from "../records.ts";

/**
 * The work's result as a promise. An error of SQLite becomes the refusal that callers can act on.
 */
export async function answer<T>(work: () => T): Promise<T> {
  try {
    return work();
  } catch (thrown) {
    throw refusalOf(thrown);
  }
}

/**
 * As `answer`, for a write: it is one durable transaction, in a later turn of the event loop. The
 * first one of a change that the audit log writes down has the event in it, or none if it changes
 * nothing.
 */
export function write<T>(db: DatabaseSync, work: () => T): Promise<T> {
  return writeChange(db, work, transactionOfRoom);
}

/**
 * As `write`, for a change that only takes a right away: on a full disk the reserve is given up to
 * it. No caller may be able to repeat it without end. Each right is taken once; only an operator
 * can mark a team again and again. All of these changes are in disk-reserve.test.ts.
 */
export function writeRevocation<T>(db: DatabaseSync, work: () => T): Promise<T> {
  return writeChange(db, work, transactionOfReserve);
}

/** As `write`, for what belongs to no change that the audit log writes down. */
export function writeAside<T>(db: DatabaseSync, work: () => T): Promise<T> {
  return answer(() => transactionOfRoom(db, work));
}

async function writeChange<T>(
  db: DatabaseSync,
  work: () => T,
  transact: <R>(db: DatabaseSync, work: () => R) => R,
): Promise<T> {
  await writeTurn();
  const event = pendingEvent();
  if (!event) return answer(() => transact(db, work));
  const { result, outcome } = await answer(() => transact(db, () => withEvent(db, event, work)));
  if (outcome !== undefined) event.written(outcome);
  return result;
}

/** Each write takes about a millisecond, and on a slow disk several. */
const writeTurn = createOwnTurns(4);

/**
 * Does the work in the transaction that is open, and adds the event if the work has changed a row.
 * Returns the outcome that was written, which counts once the transaction is durable.
 */
function withEvent<T>(
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

/** The statement that writes an event whose id is new, and ignores one whose id is not. */
export function insertEvent(db: DatabaseSync): StatementSync {
  return prepared(db).insert;
}

/** How many rows this connection has changed. */
function totalChanges(db: DatabaseSync): number {
  return Number(prepared(db).totalChanges.get()?.n);
}

function prepared(db: DatabaseSync): Statements {
  const known = statements.get(db);
  if (known) return known;
  const { names, values } = columnsOf(auditRecord.shape);
  const made = {
    insert: db.prepare(`INSERT INTO audit_events (${names}) VALUES (${values}) ON CONFLICT DO NOTHING`),
    totalChanges: db.prepare("SELECT total_changes() AS n"),
  };
  statements.set(db, made);
  return made;
}

interface Statements {
  readonly insert: StatementSync;
  readonly totalChanges: StatementSync;
}

const statements = new WeakMap<DatabaseSync, Statements>();

/**
 * A file of blocks that the store gives up, a piece at a time, so that a change that takes a right
 * away can be written on a full disk. While a part is given up, no other change is written: it
 * would take the room.
 */
export interface DiskReserve {
  /**
   * Whether a part was given up. First takes it back where there is room again. The length of the
   * file keeps the answer for the next process.
   */
  isGivenUp(): boolean;
  /** Frees a piece. Returns false where nothing is left of it. */
  giveUp(): boolean;
}

const reserves = new WeakMap<DatabaseSync, DiskReserve>();

/** From now on the changes of this database use the reserve. */
export function setReserve(db: DatabaseSync, reserve: DiskReserve): void {
  reserves.set(db, reserve);
}

/** What changes nothing needs no room, so it is done also while the reserve is given up. */
function transactionOfRoom<T>(db: DatabaseSync, work: () => T): T {
  if (!reserves.get(db)?.isGivenUp()) return transaction(db, work);
  return transaction(db, () => {
    const before = totalChanges(db);
    const result = work();
    if (totalChanges(db) !== before) throw fail("STORE_FULL");
    return result;
  });
}

/**
 * Before a piece of the reserve is given up, SQLite's log is copied into the database: the next
 * write then begins the log anew, in blocks that it has.
 */
function transactionOfReserve<T>(db: DatabaseSync, work: () => T): T {
  for (let isFirst = true; ; isFirst = false) {
    try {
      return transaction(db, work);
    } catch (thrown) {
      if (resultCode(thrown) !== sqlite.full) throw thrown;
      if (!isFirst && !reserves.get(db)?.giveUp()) throw thrown;
      copyLog(db);
    }
  }
}

function copyLog(db: DatabaseSync): void {
  try {
    db.exec("PRAGMA wal_checkpoint(PASSIVE)");
  } catch {
    // The database has no room to grow. The change may still find some at the end of the log.
  }
}

/**
 * Does the work in one transaction, whole or not at all. Needed for a single statement too: one
 * that returns rows would commit when it is reset, and node:sqlite does not look for a failure
 * there.
 */
export function transaction<T>(db: DatabaseSync, work: () => T): T {
  db.exec("BEGIN IMMEDIATE");
  try {
    const result = work();
    db.exec("COMMIT");
    return result;
  } catch (thrown) {
    // SQLite may have rolled back already, as it does when the disk is full.
    if (db.isTransaction) db.exec("ROLLBACK");
    throw thrown;
  }
}

/** Whether SQLite refused because another connection holds a lock. */
export function isBusy(thrown: unknown): boolean {
  const code = resultCode(thrown);
  return code === sqlite.busy || code === sqlite.locked;
}

/** Whether SQLite could not make the file through which processes share a database. */
export function lacksSharedMemory(thrown: unknown): boolean {
  return thrown instanceof Error && "errcode" in thrown && thrown.errcode === noSharedMemorySize;
}

/** SQLITE_IOERR_SHMSIZE. */
const noSharedMemorySize = 4_874;

/** SQLite's primary result codes (sqlite.org/rescode.html). */
const sqlite = { busy: 5, locked: 6, readOnly: 8, inOutError: 10, full: 13, cantOpen: 14 };
const outOfReach: readonly (number | undefined)[] = [
  sqlite.busy,
  sqlite.locked,
  sqlite.readOnly,
  sqlite.inOutError,
  sqlite.cantOpen,
];

function refusalOf(thrown: unknown): unknown {
  const code = resultCode(thrown);
  if (code === sqlite.full) return fail("STORE_FULL", { cause: thrown });
  if (outOfReach.includes(code) || isClosed(thrown)) {
    return unavailable({ cause: thrown });
  }
  return thrown;
}

function resultCode(thrown: unknown): number | undefined {
  if (!(thrown instanceof Error && "errcode" in thrown)) return undefined;
  // The lowest byte is the primary code; the other bytes add detail.
  return typeof thrown.errcode === "number" ? thrown.errcode & 0xff : undefined;
}

function isClosed(thrown: unknown): boolean {
  return thrown instanceof Error && "code" in thrown && thrown.code === "ERR_INVALID_STATE";
}

/** A table's columns as statements name them. */
interface Columns {
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

export function columnOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/**
 * Undefined where the text is not JSON. The parser's own error would quote the text, which may hold
 * a credential.
 */
export function parseJson(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}
