import type { DatabaseSync } from "node:sqlite";
import { createOwnTurns } from "../../base/clock.ts";
import { fail, unavailable } from "../../refusal/refusal.ts";
import { pendingEvent } from "../../audit/pending-change.ts";
import { totalChanges, withEvent } from "./change-event.ts";
import { reserveOf } from "./disk-reserve.ts";

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

/** What changes nothing needs no room, so it is done also while the reserve is given up. */
function transactionOfRoom<T>(db: DatabaseSync, work: () => T): T {
  if (!reserveOf(db)?.isGivenUp()) return transaction(db, work);
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
      if (!isFirst && !reserveOf(db)?.giveUp()) throw thrown;
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
