/**
 * A copy of a data folder that may be served meanwhile, and the way back. A restored store is older
 * than the one that it replaces, so what was revoked since is revoked in it, too, and what was used
 * of quotas is used.
 */

import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { dataFolderRefused, makeDataFolder, syncFolder } from "../../settings/data-folder.ts";
import { secretVersionsIn } from "./inspect-store.ts";
import { lockDataFolder, makePrivateFile, openDatabase } from "./locked-database.ts";
import { requireKnownSchema } from "./schema.ts";

const storeName = "keyrun.db";
/** What a data folder holds beside the store; none of them where the settings name the secrets. */
const secretNames = ["secret", "service-token"];

export interface BackedUp {
  readonly schema: number;
  readonly teams: number;
  readonly keys: number;
  readonly bytes: number;
}

/**
 * Copies the store as it is in one moment, with the secrets of the folder, to `target`, which it
 * makes (mode 0700). Checks the copy before it has its name. Throws StartRefused where there is no
 * store, where `target` is there, or where one of them can't be used. Then nothing is left.
 */
export async function backUpStore({
  dataDir,
  target,
}: {
  dataDir: string;
  target: string;
}): Promise<BackedUp> {
  const path = join(dataDir, storeName);
  if (!existsSync(path)) {
    throw new StartRefused(
      `There is no store in ${dataDir}. Set KEYRUN_DATA_DIR to the data folder of the Keyrun to back up.`,
    );
  }
  if (existsSync(target)) throw new StartRefused(`${target} is there already: name a new folder.`);
  let draft: string | undefined;
  try {
    makeDataFolder(dirname(target));
    draft = mkdtempSync(`${target}.new-`);
    const copy = makePrivateFile(join(draft, storeName));
    const source = new DatabaseSync(path, { readOnly: true, timeout: bounds.storeBusyMsMax });
    try {
      source.prepare("VACUUM INTO ?").run(copy);
    } finally {
      source.close();
    }
    // After the store: a secret that a key of the copy needs is written before that key.
    for (const name of secretNames) copyIfThere(join(dataDir, name), join(draft, name));
    const found = checked(copy, dataDir);
    for (const name of readdirSync(draft)) syncFile(join(draft, name));
    await syncFolder(draft);
    renameSync(draft, target);
    await syncFolder(dirname(target));
    return found;
  } catch (thrown) {
    if (draft !== undefined) rmSync(draft, { recursive: true, force: true });
    throw thrown instanceof StartRefused ? thrown : dataFolderRefused(dataDir, `copied to ${target}`, thrown);
  }
}

export interface Restored extends BackedUp {
  /** Where the files are that stood in the data folder; undefined if there was no store. */
  readonly replaced: string | undefined;
  /** How many keys and tokens were revoked, or given an earlier end, since the backup. */
  readonly revoked: number;
  /** Why nothing is known of what was revoked since; undefined if it is. */
  readonly unknown: string | undefined;
}

/**
 * Puts the backup in place of the data folder's store and secrets, which it keeps beside them in a
 * folder of their own. What they say was revoked since is revoked, and nobody is signed in. `allow`
 * gets the versions of the secrets that the store needs, and the folder where those of the backup
 * are; what it throws leaves the data folder as it was. Throws StartRefused where the backup is
 * damaged or of another schema, or where a Keyrun serves the folder.
 */
export async function restoreStore(parts: {
  readonly dataDir: string;
  readonly source: string;
  readonly allow: (secretVersions: readonly string[], secretsIn: string) => Promise<void>;
  readonly clock: Clock;
}): Promise<Restored> {
  const { dataDir, source } = parts;
  if (!existsSync(join(source, storeName))) {
    throw new StartRefused(`There is no ${storeName} in ${source}: name a folder that \`backup\` made.`);
  }
  let unlock: (() => void) | undefined;
  let draft: string | undefined;
  try {
    makeDataFolder(dataDir);
    unlock = lockDataFolder(dataDir);
    draft = mkdtempSync(join(dataDir, "restoring-"));
    for (const name of [storeName, ...secretNames]) copyIfThere(join(source, name), join(draft, name));
    const copy = join(draft, storeName);
    checked(copy, source);
    const { secretVersions, ...carried } = carryOver(copy, join(dataDir, storeName));
    await parts.allow(secretVersions, existsSync(join(draft, "secret")) ? draft : dataDir);
    const found = checked(copy, source);
    for (const name of readdirSync(draft)) syncFile(join(draft, name));
    return { ...found, ...carried, replaced: await putInPlace(draft, dataDir, parts.clock) };
  } catch (thrown) {
    throw thrown instanceof StartRefused ? thrown : dataFolderRefused(dataDir, "restored", thrown);
  } finally {
    if (draft !== undefined) rmSync(draft, { recursive: true, force: true });
    unlock?.();
  }
}

/**
 * Checks each page and each index of a copy that nobody else has open, and counts what it holds.
 * The words name where it is `from`. It is opened to write: SQLite leaves files beside one that is
 * only read.
 */
function checked(path: string, from: string): BackedUp {
  const db = new DatabaseSync(path);
  try {
    const schema = requireKnownSchema(db);
    const found = db.prepare("PRAGMA integrity_check(1)").get()?.integrity_check;
    if (schema === 0 || found !== "ok") throw new Error(String(found));
    const count = (table: string) => Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n);
    return { schema, teams: count("teams"), keys: count("keys"), bytes: statSync(path).size };
  } catch (thrown) {
    if (thrown instanceof StartRefused) throw thrown;
    const why = thrown instanceof Error ? thrown.message : "unknown";
    throw new StartRefused(`The store in ${from} is damaged, and nothing was changed (${why}).`, {
      cause: thrown,
    });
  } finally {
    db.close();
  }
}

/** In a copy that nobody else has open; `current` is the store that it replaces, locked. */
function carryOver(
  copy: string,
  current: string,
): Pick<Restored, "revoked" | "unknown"> & { secretVersions: string[] } {
  const unknown = whyUnreadable(current);
  const db = new DatabaseSync(copy);
  try {
    // Who signed out since would be signed in again.
    db.exec("DELETE FROM sessions");
    const revoked = unknown === undefined ? takeOver(db, current) : 0;
    return { secretVersions: secretVersionsIn(db), revoked, unknown };
  } finally {
    db.close();
  }
}

/** Brings all of the store that is replaced into its one file. */
function whyUnreadable(current: string): string | undefined {
  if (!existsSync(current)) return "the data folder had no store";
  try {
    const db = openDatabase(current);
    try {
      if (requireKnownSchema(db) === 0) return "the data folder had an empty store";
    } finally {
      db.close();
    }
    return undefined;
  } catch (thrown) {
    return thrown instanceof Error ? thrown.message : "unknown";
  }
}

/** Returns how many keys and tokens were revoked, or given an earlier end. */
function takeOver(db: DatabaseSync, current: string): number {
  db.prepare("ATTACH ? AS current").run(current);
  const now = "FROM current.%t AS now WHERE now.id = main.%t.id AND now.revoke_time_ms IS NOT NULL";
  const revoke = `UPDATE main.%t SET version = version + 1,
    (revoke_time_ms, revoked_by) = (SELECT now.revoke_time_ms, now.revoked_by ${now})
    WHERE revoke_time_ms IS NULL AND EXISTS (SELECT 1 ${now})`;
  const changes = ["keys", "service_tokens"].map((table) => revoke.replaceAll("%t", table));
  // A rotation gives the key that it replaces an end.
  changes.push(`UPDATE main.keys AS before SET version = before.version + 1, expire_time_ms = now.expire_time_ms
    FROM current.keys AS now WHERE now.id = before.id AND before.revoke_time_ms IS NULL
    AND now.expire_time_ms < coalesce(before.expire_time_ms, ${Number.MAX_SAFE_INTEGER})`);
  const counts = changes.map((sql) => Number(db.prepare(sql).run().changes));
  // Neither is less in a later store, but for what an instance has given back since.
  db.exec(`INSERT INTO main.quotas SELECT * FROM current.quotas WHERE team_id IN (SELECT id FROM main.teams)
    ON CONFLICT (id) DO UPDATE SET claimed = max(claimed, excluded.claimed), granted = max(granted, excluded.granted),
    grant_ids = iif(excluded.granted > granted, excluded.grant_ids, grant_ids)`);
  db.exec("DETACH current");
  return counts.reduce((sum, n) => sum + n, 0);
}

/**
 * The store is last: a crash before that leaves one that a start refuses for its secret, or that it
 * takes as before, and the command can be run again.
 */
async function putInPlace(draft: string, dataDir: string, clock: Clock): Promise<string | undefined> {
  const now = new Date(clock.unixMs()).toISOString().replaceAll(/[^\dT]/g, "");
  const kept = join(dataDir, `replaced-${now.slice(0, 15)}`);
  const present = readdirSync(dataDir).filter(
    (name) => name.startsWith(storeName) || secretNames.includes(name),
  );
  if (present.length > 0) mkdirSync(kept, { mode: 0o700 });
  for (const name of present) linkSync(join(dataDir, name), join(kept, name));
  // What SQLite left beside a damaged store would be read into the other.
  for (const suffix of ["-wal", "-shm", "-journal"])
    rmSync(join(dataDir, storeName + suffix), { force: true });
  for (const name of [...secretNames, storeName]) {
    if (existsSync(join(draft, name))) renameSync(join(draft, name), join(dataDir, name));
  }
  await syncFolder(dataDir);
  return present.length > 0 ? kept : undefined;
}

function copyIfThere(from: string, to: string): void {
  if (existsSync(from)) copyFileSync(from, makePrivateFile(to));
}

function syncFile(path: string): void {
  const file = openSync(path, "r+");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
