import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { bounds } from "../../bounds.ts";
import { dataFolderRefused } from "../../data-folder/data-folder.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import type { StoreInspection } from "../store-inspection.ts";
import { isServed } from "./data-folder-lock.ts";
import { requireKnownSchema } from "./migrations.ts";
import { requireOwnFile } from "./private-file.ts";

/**
 * `inspectStore` for the embedded store. Opens it to read, so a server goes on undisturbed. A
 * connection that only reads can't remove the files that SQLite makes beside a stopped store.
 */
export function inspectSqliteStore({ dataDir }: { readonly dataDir: string }): StoreInspection {
  try {
    const served = isServed(dataDir);
    const path = join(dataDir, "keyrun.db");
    if (!existsSync(path)) {
      return { words: "not there yet: the first start makes it", isServed: served, secretVersions: [] };
    }
    // Reading alone would find nothing wrong with a readable store of another user.
    requireOwnFile(path);
    return { isServed: served, ...readStore(path) };
  } catch (thrown) {
    throw thrown instanceof StartRefused ? thrown : dataFolderRefused(dataDir, "used as a store", thrown);
  }
}

function readStore(path: string): Pick<StoreInspection, "words" | "secretVersions"> {
  const db = new DatabaseSync(path, { readOnly: true, timeout: bounds.storeBusyMsMax });
  try {
    const { version, newest } = requireKnownSchema(db);
    const found = version === 0 ? [] : db.prepare("SELECT DISTINCT secret_version AS v FROM keys").all();
    const words =
      version < newest ? `schema ${version}: a start brings it to ${newest}` : `schema ${version}`;
    return { words, secretVersions: found.map(({ v }) => String(v)) };
  } finally {
    db.close();
  }
}
