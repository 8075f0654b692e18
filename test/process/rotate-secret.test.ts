import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import {
  keyrunCommand,
  restRun,
  type ServingKeyrun,
  type Settings,
  serveKeyrun,
  spawnKeyrun,
} from "../harness/keyrun-process.ts";
import { createMongoDatabases, mongodbUri } from "../harness/mongo-databases.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

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
  if (mongodbUri !== "") await databases.drop();
  folders.remove();
});

/** Each story starts four servers. */
const longer = { timeout: 300_000 };

/** The settings of a Keyrun, and the file of its secrets. */
interface Place {
  readonly dataDir: string;
  readonly secretFile: string;
  readonly settings: Settings;
}

async function start({ dataDir, settings }: Place) {
  const keyrun = await serveKeyrun(dataDir, settings);
  running.push(keyrun);
  const command = (...args: string[]) => keyrunCommand({ KEYRUN_DATA_DIR: dataDir, ...settings }, args);
  const newKey = async () => (await command("keys", "create", "--team", "demo")).stdout.trim();
  const statusOf = async (value: string) => (await restRun(keyrun.publicUrl, { value })).status;
  const stop = async () => {
    keyrun.kill("SIGTERM");
    expect(await keyrun.exited).toEqual({ code: 0, signal: null });
  };
  return { command, newKey, statusOf, stop };
}

async function rotationStory(place: Place): Promise<void> {
  const first = await start(place);
  // With MongoDB there is no team yet.
  if (place.settings.KEYRUN_MONGODB_URI) await first.command("teams", "create", "demo");
  const before = await first.newKey();
  const [oldSecret = ""] = readFileSync(place.secretFile, "utf8").trim().split("\n");
  const rotated = await first.command("secrets", "rotate");
  expect(rotated).toMatchObject({ code: 0, stderr: expect.stringContaining("restart Keyrun") });
  const [, newest, old] = /version (\w{8}), before version (\w{8})\.\n$/.exec(rotated.stdout) ?? [];
  expect(newest).not.toBe(old);
  // The running server still knows the old secret alone.
  const between = await first.newKey();
  expect(await first.statusOf(between)).toBe(200);
  await first.stop();

  const second = await start(place);
  const after = await second.newKey();
  for (const value of [before, between, after]) expect(await second.statusOf(value)).toBe(200);
  await second.stop();

  // The first secret of the list made the last key, and the second one those before.
  const [newSecret = "", kept = ""] = readFileSync(place.secretFile, "utf8").trim().split("\n");
  expect(kept).toBe(oldSecret);
  for (const [secret, missing] of [
    [newSecret, old],
    [oldSecret, newest],
  ] as const) {
    writeFileSync(place.secretFile, `${secret}\n`);
    const refused = spawnKeyrun({ KEYRUN_DATA_DIR: place.dataDir, ...place.settings });
    expect(await refused.exited).toMatchObject({ code: 1 });
    expect(refused.stderr()).toContain(`(version ${missing}). Add it, after the others, to `);
    const named = place.settings.KEYRUN_SECRET_FILE ? "KEYRUN_SECRET_FILE" : place.secretFile;
    expect(refused.stderr()).toContain(named);
  }
}

test(
  "keys made before and after a rotation work after a restart, on the embedded store",
  longer,
  async () => {
    const dataDir = folders.create();
    await rotationStory({ dataDir, secretFile: join(dataDir, "secret"), settings: {} });
  },
);

describe.skipIf(mongodbUri === "")("with a MongoDB server", () => {
  test("keys made before and after a rotation work after a restart, on MongoDB", longer, async () => {
    const secretFile = join(folders.create(), "keyrun-secret");
    writeFileSync(secretFile, `${randomBytes(32).toString("hex")}\n`, { mode: 0o600 });
    const settings = { KEYRUN_MONGODB_URI: databases.createUri(), KEYRUN_SECRET_FILE: secretFile };
    await rotationStory({ dataDir: folders.create(), secretFile, settings });
  });
});

test("start names the older secrets that no key needs, by their versions", async () => {
  const dataDir = folders.create();
  const rotate = () => keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, ["secrets", "rotate", "--json"]);
  await (await start({ dataDir, secretFile: "", settings: {} })).stop();
  await rotate();
  const middle = await start({ dataDir, secretFile: "", settings: {} });
  await middle.newKey();
  await middle.stop();
  const { versions } = JSON.parse((await rotate()).stdout);
  const listed = await keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, ["secrets", "list"]);
  expect(listed.stdout).toBe(
    `1. version ${versions[0]}, which makes new keys\n2. version ${versions[1]}\n3. version ${versions[2]}\n`,
  );
  await start({ dataDir, secretFile: "", settings: {} });
  const logged = running.at(-1)?.stderr() ?? "";
  expect(logged).toContain(`"versions":["${versions[2]}"]`);
  expect(logged).toContain("no key needs these older secrets any more");
});

test("a rotation needs no server, and says what to do where there is no file to change", async () => {
  const dataDir = folders.create();
  const rotate = (settings: Settings) =>
    keyrunCommand({ KEYRUN_DATA_DIR: dataDir, ...settings }, ["secrets", "rotate"]);
  expect(await rotate({})).toMatchObject({ code: 1, stderr: expect.stringContaining("There is no file") });
  const secret = randomBytes(32).toString("base64url");
  writeFileSync(join(dataDir, "secret"), `${secret}\n`, { mode: 0o600 });
  expect(await rotate({ KEYRUN_SECRET: secret })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^KEYRUN_SECRET holds the secrets themselves.* KEYRUN_SECRET_FILE/),
  });
  expect(await rotate({ KEYRUN_MONGODB_URI: "mongodb://127.0.0.1:1/keyrun" })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^KEYRUN_SECRET_FILE or KEYRUN_SECRET must be set/),
  });
  const { code, stdout, stderr } = await rotate({});
  expect({ code, shown: `${stdout}${stderr}`.includes(secret) }).toEqual({ code: 0, shown: false });
});
