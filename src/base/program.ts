/** What this program is: its version, and how its texts call it. */

import { readFileSync, realpathSync } from "node:fs";
import { basename, delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** A clone runs its TypeScript, and a package what tools/write-package.ts made of it. */
const isPacked = import.meta.url.endsWith(".js");

/** The program in a command to type. In a clone it is called in its folder. */
export const programName = isPacked ? "keyrun" : "./keyrun";

const root = new URL(isPacked ? "../../../" : "../../", import.meta.url);

/** The program by its whole path, for what can't rely on the folder or on the PATH. */
export const programPath = fileURLToPath(new URL("keyrun", root));

/** Where a person types commands: in which folder, and with which variables. */
export interface Place {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * What calls the program in this place: `./keyrun` in its own folder, `keyrun` where that is on the
 * PATH, as in the image, and else its whole path.
 */
export function programIn({ cwd, env }: Place, path = programPath): string {
  if (dirname(path) === resolve(cwd)) return `./${basename(path)}`;
  // The PATH that npm and npx give to a program has more than that of the person's shell.
  const found = env.npm_command === undefined ? firstOnPath(basename(path), env.PATH) : undefined;
  return found !== undefined && found === target(path) ? basename(path) : shellWord(path);
}

/**
 * What calls the program for the Keyrun of this data folder. It works in every folder, or begins
 * with `./` for the program's own.
 */
export function programFor(dataDir: string, place: Place, path = programPath): string {
  const [folder, cwd] = [resolve(place.cwd, dataDir), resolve(place.cwd)];
  const isUsual = dirname(path) === cwd && folder === join(cwd, "data");
  const program = programIn(place, path);
  return isUsual ? program : `KEYRUN_DATA_DIR=${shellWord(folder)} ${program}`;
}

/**
 * What calls the program, and what starts a server, in the place of a command that was just typed:
 * it has chosen its data folder, and a next one there chooses the same.
 */
export function callsIn(
  place: Place,
  path = programPath,
): { readonly program: string; readonly start: string } {
  const { KEYRUN_DATA_DIR: dataDir } = place.env;
  const settings = dataDir === undefined ? "" : `KEYRUN_DATA_DIR=${shellWord(dataDir)} `;
  const isOwnFolder = dirname(path) === resolve(place.cwd);
  const program = settings + programIn(place, path);
  return { program, start: isOwnFolder && !isPacked ? `${settings}npm start` : `${program} serve` };
}

/** The text as one word of a shell. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Behind its links, the program that a shell finds by its name. */
function firstOnPath(name: string, path = ""): string | undefined {
  for (const folder of path.split(delimiter)) {
    const found = target(join(folder, name));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The file behind all links; undefined if there is none. */
function target(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

/** Returns the version of Keyrun, which stands in package.json alone. */
export function readVersion(): string {
  const { version }: { version: string } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));
  return version;
}
