/**
 * The data folder: how it is made and written to, and the secrets that the first start puts there.
 */

import { existsSync, mkdirSync, statSync } from "node:fs";
import { chmod, open, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { RandomBytes } from "../base/ids.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { environment } from "./known.ts";

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

/**
 * Writes a file of the data folder that only its owner can read. A crash leaves the old file or the
 * new one, never a part. Makes the folder if it is missing.
 */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  const dataDir = dirname(path);
  const draft = `${path}.new`;
  try {
    makeDataFolder(dataDir);
    const file = await open(draft, "w", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await chmod(draft, 0o600);
    await rename(draft, path);
    await syncFolder(dataDir);
  } catch (cause) {
    await rm(draft, { force: true }).catch(() => {});
    throw dataFolderRefused(dataDir, "written", cause);
  }
}

/** The refusal of a start because of its data folder. `need` is like "used as a store". */
export function dataFolderRefused(dataDir: string, need: string, cause: unknown): StartRefused {
  const why = cause instanceof Error ? cause.message : "unknown";
  const owner = ownerOfOthersFile(cause);
  const advice =
    owner === undefined
      ? ". Set KEYRUN_DATA_DIR to a folder on a local disk that this user may write, and see that there is room."
      : `: user ${owner} owns that file. Run Keyrun as that user, give the folder and all that is in it to the user who runs Keyrun, with \`chown -R\`, or set KEYRUN_DATA_DIR to another folder.`;
  return new StartRefused(`The data folder ${dataDir} can't be ${need} (${why})${advice}`, { cause });
}

/** The user whose file this process could not restrict, as only its owner may; else undefined. */
function ownerOfOthersFile(cause: unknown): number | undefined {
  const { code, syscall, path }: NodeJS.ErrnoException = cause instanceof Error ? cause : new Error();
  if (code !== "EPERM" || syscall !== "chmod" || path === undefined) return undefined;
  return statSync(path, { throwIfNoEntry: false })?.uid;
}

const secretBytes = 32;

/**
 * The service secret and token for operators who set none. The first start makes them in the data
 * folder (mode 0600), and they are durable before they are used. A file that is damaged or can't be
 * read refuses the start, and is never replaced.
 */
export function createSecretFiles(dataDir: string, randomBytes: RandomBytes) {
  const tokenPath = join(dataDir, "service-token");
  return {
    findSecrets: () => findSecrets(dataDir),
    /** Makes the file `secret`. Replaces a lost secret, so use it only for a store without keys. */
    async makeSecret(): Promise<Buffer> {
      const text = newSecretText(randomBytes);
      await writePrivateFile(secretPath(dataDir), `${text}\n`);
      return Buffer.from(text, "base64url");
    },
    findServiceToken,
    /** The same, made if missing. */
    async serviceToken(): Promise<string> {
      const present = await findServiceToken();
      if (present !== undefined) return present;
      const token = newSecretText(randomBytes);
      await writePrivateFile(tokenPath, `${token}\n`);
      return token;
    },
  };

  /** The token of the file `service-token`, in the form of the setting; undefined if missing. */
  async function findServiceToken(): Promise<string | undefined> {
    const present = await readIfThere(tokenPath);
    if (present === undefined) return undefined;
    const parsed = environment.shape.KEYRUN_SERVICE_TOKEN.safeParse(present);
    if (parsed.data !== undefined) return parsed.data;
    throw new StartRefused(
      `The file ${tokenPath} ${parsed.error?.issues[0]?.message}. Restore the token that was in it, or remove the file, and Keyrun makes a new one.`,
    );
  }
}

/** The secrets of the file `secret`, a list as in the setting; undefined if it is missing. */
export async function findSecrets(dataDir: string): Promise<readonly Buffer[] | undefined> {
  const path = secretPath(dataDir);
  const text = await readIfThere(path);
  if (text === undefined) return undefined;
  const { data: secrets } = environment.shape.KEYRUN_SECRET.safeParse(text);
  if (secrets !== undefined) return secrets;
  throw new StartRefused(
    `The file ${path} is damaged. Restore it from a backup, or set KEYRUN_SECRET to the secret that was in it. If no key exists yet, remove the file, and Keyrun makes a new one.`,
  );
}

/** The file that holds the secrets of the service if no setting does. */
export function secretPath(dataDir: string): string {
  return join(dataDir, "secret");
}

/** A new secret, in the form of the settings. */
export function newSecretText(randomBytes: RandomBytes): string {
  return Buffer.from(randomBytes(secretBytes)).toString("base64url");
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (cause) {
    const why = cause instanceof Error && "code" in cause ? cause.code : "unknown";
    if (why === "ENOENT" || why === "ENOTDIR") return undefined;
    throw new StartRefused(
      `The file ${path} can't be read (${why}): make it readable by the user who runs Keyrun.`,
      { cause },
    );
  }
}
