import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { bounds } from "../../bounds.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { dataFolderRefused } from "../../settings/data-folder.ts";
import type { StoreInspection } from "../stores.ts";
import { reserveState } from "./disk-reserve.ts";
import { isServed, requireOwnFile } from "./locked-database.ts";
import { requireKnownSchema } from "./schema.ts";

/**
 * `inspectStore` for the embedded store. Opens it to read, so a server goes on undisturbed. A
 * connection that only reads can't remove the files that SQLite makes beside a stopped store.
 */
export function inspectSqliteStore({ dataDir }: { readonly dataDir: string }): StoreInspection {
  try {
    // The lock ends with its process, and a suspended one keeps it.
    const served = isServed(dataDir);
    const servedBy = { isServed: served, isLocked: served, instances: [], registered: [] };
    const path = join(dataDir, "keyrun.db");
    if (!existsSync(path)) {
      const words = "not there yet: the first start makes it";
      return { words, ...servedBy, secretVersions: [] };
    }
    // Reading alone would find nothing wrong with a readable store of another user.
    requireOwnFile(path);
    const { words, secretVersions } = readStore(path);
    const isFull = reserveState(dataDir) === "given_up";
    return { ...servedBy, secretVersions, words: isFull ? `${words}; ${reserveWords}` : words };
  } catch (thrown) {
    throw thrown instanceof StartRefused ? thrown : dataFolderRefused(dataDir, "used as a store", thrown);
  }
}

const reserveWords =
  "the disk was full, and revocations have used a part of keyrun.reserve. Make room: until then, every other change is refused";

function readStore(path: string): Pick<StoreInspection, "words" | "secretVersions"> {
  const db = new DatabaseSync(path, { readOnly: true, timeout: bounds.storeBusyMsMax });
  try {
    const schema = requireKnownSchema(db);
    if (schema === 0) return { words: "empty: the first start makes its tables", secretVersions: [] };
    return { words: `schema ${schema}`, secretVersions: secretVersionsIn(db) };
  } finally {
    db.close();
  }
}

/** As `KeyStore.secretVersions`. */
export function secretVersionsIn(db: DatabaseSync): string[] {
  const versions = db.prepare(`SELECT secret_version AS v FROM keys
    UNION SELECT secret_version FROM service_tokens WHERE revoke_time_ms IS NULL`);
  return versions.all().map(({ v }) => String(v));
}
