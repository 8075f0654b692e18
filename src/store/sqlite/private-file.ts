import { chmodSync, closeSync, existsSync, openSync } from "node:fs";

/**
 * Makes an empty file that only its owner may read, or restricts the existing one, and returns its
 * path.
 */
export function makePrivateFile(path: string): string {
  // An existing file must not be opened: closing it would drop the locks that this process holds on
  // it.
  if (existsSync(path)) chmodSync(path, 0o600);
  else closeSync(openSync(path, "wx", 0o600));
  return path;
}
