import { existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { StartRefused } from "./error.ts";

/**
 * Makes the folder where it is missing, and those above it, each for its owner alone. Throws the system's own error
 * where it can't. Level by level, as Node's `recursive` tries for ever where a file system takes no folders (/proc).
 */
export function makeDataFolder(path: string): void {
  if (existsSync(path)) return;
  const above = dirname(path);
  if (above !== path) makeDataFolder(above);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (thrown) {
    // Another process that starts on the same folder may have been quicker.
    if (!existsSync(path)) throw thrown;
  }
}

/** The refusal of a start whose data folder fails it; `need` is what it was to be, like "used as a store". */
export function dataFolderRefused(dataDir: string, need: string, cause: unknown): StartRefused {
  const why = cause instanceof Error ? cause.message : "unknown";
  return new StartRefused(
    `The data folder ${dataDir} can't be ${need} (${why}). Set KEYRUN_DATA_DIR to a folder on a local disk that this user may write.`,
    { cause },
  );
}
