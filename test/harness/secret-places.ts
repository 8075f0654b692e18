import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, expect } from "vitest";
import {
  keyrunCommand,
  type ServingKeyrun,
  type Settings,
  servedCommand,
  servedRun,
  serveKeyrun,
} from "./keyrun-process.ts";
import { createMongoDatabases } from "./mongo-databases.ts";
import { createTempFolders } from "./temp-folders.ts";

export type SecretPlace = ReturnType<typeof placeOf>;

/**
 * Real Keyruns of a test file, and the files of their secrets. Each process ends with its test, and
 * what was written with the file.
 */
export function secretPlaces() {
  const folders = createTempFolders();
  const databases = createMongoDatabases();
  const running: ServingKeyrun[] = [];
  afterEach(async () => {
    for (const keyrun of running.splice(0)) {
      keyrun.kill("SIGKILL");
      await keyrun.exited;
    }
  });
  afterAll(async () => {
    await databases.drop();
    folders.remove();
  });
  return {
    embedded() {
      const dataDir = folders.create();
      return placeOf(running, join(dataDir, "secret"), { KEYRUN_DATA_DIR: dataDir });
    },
    onMongo(more: Settings = {}) {
      const secretFile = join(folders.create(), "keyrun-secret");
      writeFileSync(secretFile, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600 });
      const uri = databases.createUri();
      return placeOf(running, secretFile, {
        ...{ KEYRUN_DATA_DIR: folders.create(), KEYRUN_MONGODB_URI: uri, KEYRUN_SECRET_FILE: secretFile },
        ...more,
      });
    },
    newFolder: folders.create,
  };
}

/** The secrets that a file holds, in their order. */
export function heldIn(secretFile: string): string[] {
  return readFileSync(secretFile, "utf8").match(/^[\w-]{43}$/gm) ?? [];
}

function placeOf(running: ServingKeyrun[], secretFile: string, settings: Settings) {
  const command = (...args: string[]) => keyrunCommand(settings, args);
  return {
    settings,
    secretFile,
    command,
    /** The secrets that the file holds, newest first. */
    held: () => heldIn(secretFile),
    newKey: async () => (await servedCommand(settings, ["keys", "create", "--team", "demo"])).stdout.trim(),
    async start() {
      const keyrun = await serveKeyrun(settings.KEYRUN_DATA_DIR ?? "", settings);
      running.push(keyrun);
      return {
        ...keyrun,
        statusOf: async (value: string) => (await servedRun(keyrun.publicUrl, { value })).status,
        /** Ends it by SIGTERM. */
        async stop() {
          keyrun.kill("SIGTERM");
          expect(await keyrun.exited).toEqual({ code: 0, signal: null });
        },
      };
    },
  };
}
