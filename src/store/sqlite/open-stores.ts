import { join } from "node:path";
import { dataFolderRefused, makeDataFolder } from "../../settings/data-folder.ts";
import { createLookUpEach, type Stores } from "../stores.ts";
import { createAppStore } from "./app-store.ts";
import { createAuditStore } from "./audit-store.ts";
import { openReserve, type ReserveState } from "./disk-reserve.ts";
import { createKeyStore } from "./key-store.ts";
import { type LockedDatabase, makePrivateFile, openLockedDatabase } from "./locked-database.ts";
import { createQuotaStore } from "./quota-store.ts";
import { createRunStore } from "./run-store.ts";
import { createServiceTokenStore } from "./service-token-store.ts";
import { createSessionStore, createUserStore } from "./session-store.ts";
import { answer, setReserve } from "./statement.ts";
import { createMemberStore, createPreviewStore, createTeamStore } from "./team-store.ts";
import { createUsageStore } from "./usage-store.ts";

/**
 * Opens the embedded store in `dataDir`, and makes its tables if it is empty. Creates the folder
 * where it is missing (mode 0700; its files 0600). One process for each folder: throws StartRefused
 * where another process holds it, where a Keyrun of another schema wrote it, or where the folder
 * can't be used.
 */
export async function openSqliteStores({
  dataDir,
  onReserve = () => {},
}: {
  readonly dataDir: string;
  /** Called with each new state of the blocks that are kept for changes that take a right away. */
  readonly onReserve?: ((state: ReserveState) => void) | undefined;
}): Promise<Stores> {
  const locked = openLockedDatabase(dataDir, {
    prepare: () => makeDataFolder(dataDir),
    file: () => makePrivateFile(join(dataDir, "keyrun.db")),
  });
  try {
    setReserve(locked.db, openReserve(dataDir, onReserve));
    return storesOf(locked);
  } catch (thrown) {
    locked.close();
    throw dataFolderRefused(dataDir, "used as a store", thrown);
  }
}

function storesOf({ db, close }: LockedDatabase): Stores {
  const anything = db.prepare("SELECT EXISTS (SELECT 1 FROM teams) OR EXISTS (SELECT 1 FROM apps) AS found");
  const [keys, teams, apps] = [createKeyStore(db), createTeamStore(db), createAppStore(db)];
  return {
    keys,
    teams,
    apps,
    members: createMemberStore(db),
    preview: createPreviewStore(db),
    sessions: createSessionStore(db),
    users: createUserStore(db),
    serviceTokens: createServiceTokenStore(db),
    runs: createRunStore(db),
    usage: createUsageStore(db),
    quotas: createQuotaStore(db),
    audit: createAuditStore(db),
    // The lock on the folder lasts as long as the process, so the guard can't lose it.
    guard: { isValid: () => db.isOpen, release: async () => {} },
    check: createLookUpEach({ keys, teams, apps }),
    isEmpty: () => answer(() => anything.get()?.found === 0),
    close: async () => close(),
  };
}
