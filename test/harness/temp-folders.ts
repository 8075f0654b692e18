import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** New folders for a test's files. `remove` removes them all. */
export function createTempFolders(): { create: () => string; remove: () => void } {
  const folders: string[] = [];
  return {
    create() {
      const folder = mkdtempSync(join(tmpdir(), "keyrun-test-"));
      folders.push(folder);
      return folder;
    },
    remove() {
      for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
    },
  };
}
