import { chmod, open, readFile, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { dataFolderRefused, makeDataFolder } from "./data-folder.ts";
import { StartRefused } from "./error.ts";
import type { RandomBytes } from "./keys/key-value.ts";
import { environment } from "./settings/known.ts";

const secretBytes = 32;

/**
 * The service secret and token where the operator set none: kept in the data folder, made at the first start (mode
 * 0600) and durable before they are used. A file that can't be read or is damaged refuses the start, and is never
 * replaced.
 */
export function createSecretFiles(dataDir: string, randomBytes: RandomBytes) {
  const newText = () => Buffer.from(randomBytes(secretBytes)).toString("base64url");
  return {
    /** The one secret that `secret` holds, base64url, in a list like the setting's; undefined where there is no file. */
    async findSecrets(): Promise<readonly Buffer[] | undefined> {
      const path = join(dataDir, "secret");
      const text = await readIfThere(path);
      if (text === undefined) return undefined;
      const secret = Buffer.from(text, "base64url");
      if (secret.length >= secretBytes) return [secret];
      throw new StartRefused(
        `The file ${path} is damaged. Restore it from a backup, or set KEYRUN_SECRET to what it held; where no key was made yet, remove it, and a new one is made.`,
      );
    },
    /** Makes `secret` and answers with it. It takes the place of one that is lost: only for a store without keys. */
    async makeSecret(): Promise<Buffer> {
      const text = newText();
      await writePrivateFile(join(dataDir, "secret"), `${text}\n`);
      return Buffer.from(text, "base64url");
    },
    /** `service-token`: what internal services and the command line send. Held to the same form as the setting. */
    async serviceToken(): Promise<string> {
      const path = join(dataDir, "service-token");
      const held = await readIfThere(path);
      if (held === undefined) {
        const token = newText();
        await writePrivateFile(path, `${token}\n`);
        return token;
      }
      const parsed = environment.shape.KEYRUN_SERVICE_TOKEN.safeParse(held);
      if (parsed.data !== undefined) return parsed.data;
      throw new StartRefused(
        `The file ${path} ${parsed.error?.issues[0]?.message}. Put the token back that it held, or remove it, and a new one is made.`,
      );
    },
  };
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

/**
 * Writes a file of the data folder for its owner's eyes alone, whole or not at all: a crash leaves the old file or
 * the new one. Makes the folder where it is missing.
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
  } catch (cause) {
    throw dataFolderRefused(dataDir, "written", cause);
  }
}
