import { chmodSync, closeSync, existsSync, openSync, statSync } from "node:fs";

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

/**
 * Throws what `makePrivateFile` would throw for an existing file, such as one of another user, and
 * changes nothing.
 */
export function requireOwnFile(path: string): void {
  chmodSync(path, statSync(path).mode & 0o7777);
}
