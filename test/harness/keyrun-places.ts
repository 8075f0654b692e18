import { afterAll, afterEach, expect } from "vitest";
import {
  type KeyrunProcess,
  keyrunCommand,
  type ServingKeyrun,
  type Settings,
  servedCommand,
  serveKeyrun,
  spawnKeyrun,
} from "./keyrun-process.ts";
import { createTempFolders } from "./temp-folders.ts";

/**
 * Places on which a test file starts real Keyruns again and again: a data folder and settings. A
 * process ends with its test at the latest, and the folders go with the file.
 */
export function keyrunPlaces() {
  const folders = createTempFolders();
  const running: KeyrunProcess[] = [];
  const endAll = async () => {
    for (const each of running.splice(0)) await kill(each);
  };
  afterEach(endAll);
  afterAll(() => folders.remove());
  return {
    newFolder: folders.create,
    endAll,
    place(own: Settings = {}, dataDir = folders.create()) {
      const settings: Settings = { KEYRUN_DATA_DIR: dataDir, ...own };
      const command = (args: readonly string[], more: Settings = {}) =>
        keyrunCommand({ ...settings, ...more }, args);
      return {
        dataDir,
        settings,
        command,
        /** Makes a key of the team `demo`, and returns its value. */
        async newKey(): Promise<string> {
          const { stdout } = await servedCommand(settings, ["keys", "create", "--team", "demo"]);
          return stdout.trim();
        },
        /** Starts a Keyrun that may be refused, on free ports. */
        spawn(more: Settings = {}, program?: readonly string[]): KeyrunProcess {
          const ports = { KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0" };
          const keyrun = spawnKeyrun({ ...ports, ...settings, ...more }, program);
          running.push(keyrun);
          return keyrun;
        },
        async start(more: Settings = {}, program?: readonly string[]): Promise<ServingKeyrun> {
          const keyrun = await serveKeyrun(dataDir, { ...settings, ...more }, program);
          running.push(keyrun);
          return keyrun;
        },
      };
    },
  };
}

/** Ends it by SIGTERM, cleanly. */
export async function stop(keyrun: KeyrunProcess): Promise<void> {
  keyrun.kill("SIGTERM");
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
}

/** Ends it by SIGKILL. */
export async function kill(keyrun: KeyrunProcess): Promise<void> {
  keyrun.kill("SIGKILL");
  await keyrun.exited;
}
