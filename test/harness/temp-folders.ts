import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** New folders for a test's files. `remove` removes them all. */
export function createTempFolders(place: string = tmpdir()): { create: () => string; remove: () => void } {
  const folders: string[] = [];
  return {
    create() {
      const folder = mkdtempSync(join(place, "keyrun-test-"));
      folders.push(folder);
      return folder;
    },
    remove() {
      for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Where the databases of the tests' servers are: in memory where there is room. Beside other work a
 * disk may take over a second for one write, and then Keyrun answers 503. That is no fault.
 */
export const databasesFolder = hasRoom("/dev/shm") ? "/dev/shm" : tmpdir();

function hasRoom(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize > 1024 ** 3;
  } catch {
    return false;
  }
}
