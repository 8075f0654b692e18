import { lstatSync, mkdirSync, realpathSync } from "node:fs";
import module from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Lets Node keep the code that it compiles, which halves the time of a command. Does nothing where
 * that is not safe or not possible: the cache only saves time.
 *
 * Node runs what the cache holds without a look at the source, so a user who can write there can
 * run code as this user. Node's own default, a known name in /tmp, would be such a place on a
 * machine with several users. Here, the folder stands among Keyrun's packages, and is used only if
 * all the folders down to it are this user's own and nobody else can write there. It is bounded:
 * one file for each source file, and `npm ci` removes it.
 */
export function keepCompiledCode() {
  try {
    const installed = realpathSync(fileURLToPath(new URL("../node_modules", import.meta.url)));
    if (!isOwn(installed)) return;
    const folder = join(installed, ".cache", "keyrun");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (isOwn(dirname(folder)) && isOwn(folder)) module.enableCompileCache(folder);
  } catch {
    // A folder that can't be read or made, such as one in an image that is read only.
  }
}

function isOwn(folder) {
  const facts = lstatSync(folder);
  return facts.isDirectory() && facts.uid === process.getuid?.() && (facts.mode & 0o022) === 0;
}
