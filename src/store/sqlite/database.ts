import { DatabaseSync } from "node:sqlite";
import { bounds } from "../../bounds.ts";
import { lacksSharedMemory } from "./statement.ts";

/**
 * Opens a connection whose acknowledged writes survive a crash of the process and of the machine.
 * Other processes may read the database meanwhile, as a backup does. Where the disk has no room for
 * the memory that they would share, they can't until the next start: better than no start.
 */
export function openDatabase(path: string): DatabaseSync {
  try {
    return open(path, "NORMAL");
  } catch (thrown) {
    if (!lacksSharedMemory(thrown)) throw thrown;
    return open(path, "EXCLUSIVE");
  }
}

function open(path: string, locking: "NORMAL" | "EXCLUSIVE"): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: bounds.storeBusyMsMax, defensive: true });
  try {
    configure(db, locking);
    return db;
  } catch (thrown) {
    db.close();
    throw thrown;
  }
}

function configure(db: DatabaseSync, locking: "NORMAL" | "EXCLUSIVE"): void {
  db.exec(`PRAGMA locking_mode = ${locking}`);
  // fullfsync matters on macOS only: a plain fsync leaves the write in the drive's cache there.
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON");
}
