import { chmod, mkdir, open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import type { RandomBytes } from "./keys/key-value.ts";

const secretBytes = 32;

/**
 * The service secrets and token where the operator set none: read from the data folder, or made there at the first
 * start (mode 0600) and made durable before they are used. A file that can't be read is an error, never replaced.
 */
export function createSecretFiles(dataDir: string, randomBytes: RandomBytes) {
  return {
    /** `secret`: 32 bytes, base64url. */
    async secret(): Promise<Buffer> {
      const text = await readOrMake(dataDir, "secret", () => base64url(randomBytes(secretBytes)));
      const secret = Buffer.from(text, "base64url");
      if (secret.length >= secretBytes) return secret;
      throw new Error(
        `The file ${join(dataDir, "secret")} is damaged: restore it from a backup, or set KEYRUN_SECRET.`,
      );
    },
    /** `service-token`: what internal services and the command line send. */
    serviceToken: () => readOrMake(dataDir, "service-token", () => base64url(randomBytes(secretBytes))),
  };
}

async function readOrMake(dataDir: string, name: string, make: () => string): Promise<string> {
  const path = join(dataDir, name);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const held = await readIfThere(path);
  if (held !== undefined) return held;
  await writePrivateFile(path, `${make()}\n`);
  return (await readIfThere(path)) ?? "";
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw new Error(`The file ${path} can't be read: make it readable by the user who runs Keyrun.`, {
      cause: error,
    });
  }
}

/** Writes a file for its owner's eyes alone, whole or not at all: a crash leaves the old file or the new one. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  const draft = `${path}.new`;
  const file = await open(draft, "w", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await chmod(draft, 0o600);
  await rename(draft, path);
}

function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64url");
}
