import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StartRefused } from "../../error.ts";
import { makePrivateFile } from "./private-file.ts";
import { isBusy } from "./statement.ts";

/**
 * Takes the folder for this process alone and answers with what gives it back. The lock is the operating
 * system's on a small database beside the store: it ends with the process, also on `kill -9`, and leaves worker
 * threads free to open the store itself. Throws StartRefused where another process holds it.
 */
export function lockDataFolder(dataDir: string): () => void {
  const db = new DatabaseSync(makePrivateFile(join(dataDir, "keyrun.lock")), { timeout: 0 });
  try {
    db.exec("BEGIN EXCLUSIVE");
  } catch (thrown) {
    db.close();
    throw isBusy(thrown) ? alreadyServed(dataDir) : thrown;
  }
  // The closure keeps the connection from being collected, and the lock from being dropped with it.
  return () => {
    if (db.isOpen) db.close();
  };
}

function alreadyServed(dataDir: string): StartRefused {
  return new StartRefused(
    `Another Keyrun already serves the data folder ${dataDir}. Stop it first, or set KEYRUN_DATA_DIR to a folder of this one's own.`,
  );
}
