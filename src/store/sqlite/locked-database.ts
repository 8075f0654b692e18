import type { DatabaseSync } from "node:sqlite";
import { StartRefused } from "../../refusal/start-refused.ts";
import { dataFolderRefused } from "../../settings/data-folder.ts";
import { lockDataFolder } from "./data-folder-lock.ts";
import { openDatabase } from "./database.ts";
import { migrate } from "./migrations.ts";

export interface LockedDatabase {
  readonly db: DatabaseSync;
  /** Closes the store and leaves the folder to the next process. Closing again does nothing. */
  close(): void;
}

/**
 * Takes the folder for this process alone, opens its store and brings the schema up to date.
 * `prepare` is called before that, and `file` with the folder locked; it returns the store's path.
 * Throws StartRefused where another process holds the folder, where a newer Keyrun wrote it, or
 * where it can't be used. Then nothing stays open.
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

function opened(path: string, unlock: () => void): LockedDatabase {
  const db = openDatabase(path);
  try {
    migrate(db);
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
