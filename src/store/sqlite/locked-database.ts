import { chmodSync, closeSync, existsSync, openSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { bounds } from "../../bounds.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { dataFolderRefused } from "../../settings/data-folder.ts";
import { createSchema } from "./schema.ts";
import { isBusy, lacksSharedMemory } from "./statement.ts";

/**
 * Takes the folder for this process alone, opens its store, and makes its tables if it is empty.
 * `prepare` is called before that, and `file` with the folder locked; it returns the store's path.
 * Throws StartRefused where another process holds the folder, where a Keyrun of another schema
 * wrote it, or where it can't be used. Then nothing stays open.
 */
export function openLockedDatabase(
  dataDir: string,
  { prepare, file }: { readonly prepare: () => void; readonly file: () => string },
): LockedDatabase {
  try {
    prepare();
    const unlock = lockDataFolder(dataDir);
    try {
      return opened(file(), unlock);
    } catch (thrown) {
      unlock();
      throw thrown;
    }
  } catch (thrown) {
    throw thrown instanceof StartRefused ? thrown : dataFolderRefused(dataDir, "used as a store", thrown);
  }
}

export interface LockedDatabase {
  readonly db: DatabaseSync;
  /** Closes the store and leaves the folder to the next process. Closing again does nothing. */
  close(): void;
}

function opened(path: string, unlock: () => void): LockedDatabase {
  const db = openDatabase(path);
  try {
    createSchema(db);
  } catch (thrown) {
    db.close();
    throw thrown;
  }
  let isOpen = true;
  return {
    db,
    close() {
      if (!isOpen) return;
      isOpen = false;
      db.close();
      unlock();
    },
  };
}

/**
 * Makes an empty file that only its owner may read, or restricts the existing one, and returns its
 * path.
 */
export function makePrivateFile(path: string): string {
  // An existing file must not be opened: closing it would drop the locks that this process holds on
  // it.
  if (existsSync(path)) chmodSync(path, 0o600);
  else closeSync(openSync(path, "wx", 0o600));
  return path;
}

/**
 * Throws what `makePrivateFile` would throw for an existing file, such as one of another user, and
 * changes nothing.
 */
export function requireOwnFile(path: string): void {
  chmodSync(path, statSync(path).mode & 0o7777);
}

/**
 * Takes the folder for this process alone and returns the function that releases it. The lock is a
 * lock of the operating system on a small database beside the store. It ends with the process, also
 * on `kill -9`, and worker threads stay free to open the store itself. Throws StartRefused where
 * another process holds it, after a short wait: `isServed` of another process takes it for an
 * instant. The wait blocks this process.
 */
export function lockDataFolder(dataDir: string): () => void {
  const path = makePrivateFile(join(dataDir, "keyrun.lock"));
  const db = new DatabaseSync(path, { timeout: bounds.storeLockMsMax });
  try {
    // Without a journal on the disk: there is nothing to roll back, and the disk may be full.
    db.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (thrown) {
    db.close();
    throw isBusy(thrown) ? alreadyServed(dataDir) : thrown;
  }
  // The closure keeps the connection from being collected; collecting it would release the lock.
  return () => {
    if (db.isOpen) db.close();
  };
}

/** Whether another process holds the folder now. Throws where that can't be found out. */
export function isServed(dataDir: string): boolean {
  if (!existsSync(join(dataDir, "keyrun.lock"))) return false;
  try {
    lockDataFolder(dataDir)();
    return false;
  } catch (thrown) {
    if (thrown instanceof StartRefused) return true;
    throw thrown;
  }
}

function alreadyServed(dataDir: string): StartRefused {
  return new StartRefused(
    `Another Keyrun already serves the data folder ${dataDir}. Stop it first, or set KEYRUN_DATA_DIR to another folder.`,
  );
}

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
