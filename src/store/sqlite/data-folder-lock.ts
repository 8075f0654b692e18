import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { bounds } from "../../bounds.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { makePrivateFile } from "./private-file.ts";
import { isBusy } from "./statement.ts";

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
