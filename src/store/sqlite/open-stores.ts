import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { dataFolderRefused, makeDataFolder } from "../../data-folder/data-folder.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { createLookUpEach } from "../look-up-each.ts";
import type { Stores } from "../stores.ts";
import { createAppStore } from "./app-store.ts";
import { lockDataFolder } from "./data-folder-lock.ts";
import { openDatabase } from "./database.ts";
import { createKeyStore } from "./key-store.ts";
import { createMemberStore } from "./member-store.ts";
import { migrate } from "./migrations.ts";
import { createPreviewStore } from "./preview-store.ts";
import { makePrivateFile } from "./private-file.ts";
import { createRunRecordStore } from "./run-record-store.ts";
import { createSessionStore } from "./session-store.ts";
import { answer } from "./statement.ts";
import { createTeamStore } from "./team-store.ts";
import { createUserStore } from "./user-store.ts";
import { createWindowStore } from "./window-store.ts";

/**
 * Opens the embedded store in `dataDir` and brings its schema up to date. Creates the folder where
 * it is missing (mode 0700; its files 0600). One process for each folder: throws StartRefused where
 * another process holds it, where a newer Keyrun wrote it, or where the folder can't be used.
 */
export async function openSqliteStores({ dataDir }: { readonly dataDir: string }): Promise<Stores> {
  try {
    makeDataFolder(dataDir);
    const unlock = lockDataFolder(dataDir);
    try {
      return openLocked(dataDir, unlock);
    } catch (thrown) {
      unlock();
      throw thrown;
    }
  } catch (thrown) {
    throw thrown instanceof StartRefused ? thrown : dataFolderRefused(dataDir, "used as a store", thrown);
  }
}

function openLocked(dataDir: string, unlock: () => void): Stores {
  const db = openDatabase(makePrivateFile(join(dataDir, "keyrun.db")));
  try {
    migrate(db);
    return storesOf(db, unlock);
  } catch (thrown) {
    db.close();
    throw thrown;
  }
}

function storesOf(db: DatabaseSync, unlock: () => void): Stores {
  const anything = db.prepare("SELECT EXISTS (SELECT 1 FROM teams) OR EXISTS (SELECT 1 FROM apps) AS found");
  let open = true;
  const close = async () => {
    if (!open) return;
    open = false;
    db.close();
    unlock();
  };
  const [keys, teams, apps] = [createKeyStore(db), createTeamStore(db), createAppStore(db)];
  return {
    keys,
    teams,
    apps,
    members: createMemberStore(db),
    preview: createPreviewStore(db),
    sessions: createSessionStore(db),
    users: createUserStore(db),
    window: createWindowStore(db),
    runRecords: createRunRecordStore(db),
    // The lock on the folder lasts as long as the process, so the guard can't lose it.
    guard: { holds: () => open, release: async () => {} },
    check: createLookUpEach({ keys, teams, apps }),
    isEmpty: () => answer(() => anything.get()?.found === 0),
    close,
  };
}
