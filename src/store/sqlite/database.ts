import { DatabaseSync } from "node:sqlite";
import { bounds } from "../../bounds.ts";

/**
 * Opens a connection whose acknowledged writes survive a crash of the process and of the machine.
 */
export function openDatabase(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: bounds.storeBusyMsMax, defensive: true });
  // fullfsync matters on macOS only: a plain fsync leaves the write in the drive's cache there.
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON");
  return db;
}
