// What this program is: its version, and how its texts call it.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** A clone runs its TypeScript, and a package what tools/write-package.ts made of it. */
const isPacked = import.meta.url.endsWith(".js");

/** The program in a command to type. In a clone it is called in its folder. */
export const programName = isPacked ? "keyrun" : "./keyrun";

/** What starts a server. */
export const startCommand = isPacked ? "keyrun serve" : "npm start";

const root = new URL(isPacked ? "../../../" : "../../", import.meta.url);

/** The program by its whole path, for what can't rely on the folder or on the PATH. */
export const programPath = fileURLToPath(new URL("keyrun", root));

/**
 * What calls it from any folder, for a program that npm started with this `npm_command`, if any:
 * npx puts nothing on the PATH.
 */
export function programAnywhere(npmCommand: string | undefined): string {
  return isPacked && npmCommand !== "exec" ? programName : programPath;
}

/** Returns the version of Keyrun, which stands in package.json alone. */
export function readVersion(): string {
  const { version }: { version: string } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));
  return version;
}
