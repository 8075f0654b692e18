import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, onTestFinished } from "vitest";
import { type Clock, systemClock } from "#src/base/clock.ts";
import { runCommand } from "./command-line.ts";
import { startKeyrun } from "./keyrun.ts";
import { restRun, type Settings } from "./keyrun-process.ts";
import { createMongoDatabases } from "./mongo-databases.ts";
import { createTempFolders } from "./temp-folders.ts";

export type SecretPlace = ReturnType<typeof placeOf>;

/** Places for the Keyruns of a test file, one after the other, and the files of their secrets. */
export function secretPlaces() {
  const folders = createTempFolders();
  const databases = createMongoDatabases();
  afterAll(async () => {
    await databases.drop();
    folders.remove();
  });
  return {
    embedded(more: Settings = {}) {
      const dataDir = folders.create();
      return placeOf(join(dataDir, "secret"), { KEYRUN_DATA_DIR: dataDir, ...more });
    },
    onMongo(more: Settings = {}) {
      const secretFile = join(folders.create(), "keyrun-secret");
      writeFileSync(secretFile, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600 });
      const uri = databases.createUri();
      return placeOf(secretFile, {
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

function placeOf(secretFile: string, settings: Settings) {
  const command = (...args: string[]) => runCommand(args, { env: settings });
  const startHere = (clock: Clock = systemClock) =>
    startKeyrun({ clock, settings: { KEYRUN_SECRET: undefined, ...settings } });
  return {
    settings,
    secretFile,
    command,
    /** The secrets that the file holds, newest first. */
    held: () => heldIn(secretFile),
    newKey: async () => (await command("keys", "create", "--team", "demo")).stdout.trim(),
    /** Starts Keyrun in this process. */
    async start(clock?: Clock) {
      const { publicUrl, close } = await startHere(clock);
      let isOpen = true;
      const stop = async () => {
        if (isOpen) await close();
        isOpen = false;
      };
      onTestFinished(stop);
      return {
        publicUrl,
        stop,
        statusOf: async (value: string) => (await restRun(publicUrl, { value })).status,
      };
    },
    /** The words with which a start is refused. */
    refusal: () => startHere().then(() => "", String),
  };
}

/** Keys made before and after a rotation work, and none without its secret. */
export async function rotationStory(place: SecretPlace): Promise<void> {
  const { command, newKey, start } = place;
  const first = await start();
  // With MongoDB there is no team yet.
  if (place.settings.KEYRUN_MONGODB_URI) await command("teams", "create", "demo");
  const before = await newKey();
  const [oldSecret = ""] = place.held();
  const rotated = await command("secrets", "rotate");
  expect(rotated).toMatchObject({ code: 0, stderr: expect.stringContaining("restart Keyrun") });
  const [, newest, old] = /version (\w{8}), before version (\w{8})\.\n$/.exec(rotated.stdout) ?? [];
  expect(newest).not.toBe(old);
  // The running server still knows the old secret alone.
  const between = await newKey();
  expect(await first.statusOf(between)).toBe(200);
  await first.stop();

  const second = await start();
  const after = await newKey();
  for (const value of [before, between, after]) expect(await second.statusOf(value)).toBe(200);
  await second.stop();

  // The first secret of the list made the last key, and the second one those before.
  const [newSecret = "", kept = ""] = place.held();
  expect(kept).toBe(oldSecret);
  for (const [secret, missing] of [
    [newSecret, old],
    [oldSecret, newest],
  ] as const) {
    writeFileSync(place.secretFile, `${secret}\n`);
    const refusal = await place.refusal();
    expect(refusal).toContain(`(version ${missing}). Add it, after the others, to `);
    expect(refusal).toContain(place.settings.KEYRUN_SECRET_FILE ? "KEYRUN_SECRET_FILE" : place.secretFile);
  }
}

/** The secret that a running Keyrun makes keys with is not dropped. */
export async function dropStory(place: SecretPlace) {
  const { command, held, start } = place;
  // The running server knows the old secret alone, and no key needs that yet.
  const first = await start();
  expect(await command("secrets", "rotate")).toMatchObject({ code: 0 });
  const [newest] = held();
  await refusedToDrop(place, /may still make keys with version \w{8}\. Stop it first/);
  await first.stop();

  expect(await command("secrets", "drop", "--yes")).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("Start Keyrun again"),
  });
  expect(held()).toEqual([newest]);
  await (await start()).stop();
}

export async function refusedToDrop(
  { command, held }: SecretPlace,
  words: RegExp,
  ...version: string[]
): Promise<void> {
  const before = held();
  const { code, stderr } = await command("secrets", "drop", "--yes", ...version);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(words) });
  expect(held()).toEqual(before);
  for (const text of before) expect(stderr).not.toContain(text);
}
