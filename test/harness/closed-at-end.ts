import { afterAll } from "vitest";
import { createTempFolders } from "./temp-folders.ts";

/**
 * Returns what a file of tests, or a `describe`, has started for all of its tests, and closes it
 * after the last one. What was started later is closed first.
 */
export function closedAtEnd<Started extends { close(): unknown }>(started: Started): Started {
  afterAll(async () => void (await started.close()));
  return started;
}

/** Folders for all tests of a file, or of a `describe`, that are removed after the last one. */
export function tempFolders() {
  const folders = createTempFolders();
  afterAll(folders.remove);
  return folders;
}
