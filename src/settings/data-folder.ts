import { existsSync, mkdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname } from "node:path";
import { StartRefused } from "../refusal/start-refused.ts";

/**
 * Makes the folder and its missing parents, for their owner alone. Throws the system's error if it
 * can't. Makes one level at a time: Node's `recursive` never ends on a file system that takes no
 * folders, such as /proc.
 */
export function makeDataFolder(path: string): void {
  if (existsSync(path)) return;
  const above = dirname(path);
  if (above !== path) makeDataFolder(above);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (thrown) {
    // Another process that starts on the same folder may have made it first.
    if (!existsSync(path)) throw thrown;
  }
}

/**
 * Makes the names in the folder durable: a file that was renamed has its new name after a crash.
 */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** The refusal of a start because of its data folder. `need` is like "used as a store". */
export function dataFolderRefused(dataDir: string, need: string, cause: unknown): StartRefused {
  const why = cause instanceof Error ? cause.message : "unknown";
  return new StartRefused(
    `The data folder ${dataDir} can't be ${need} (${why}). Set KEYRUN_DATA_DIR to a folder on a local disk that this user may write, and see that there is room.`,
    { cause },
  );
}
