import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { keyrunCommand, type Settings, spawnKeyrun } from "../harness/keyrun-process.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { type SecretPlace, secretPlaces } from "../harness/secret-places.ts";

const { embedded, onMongo, newFolder } = secretPlaces();

/** Each story starts four servers. */
const longer = { timeout: 300_000 };

async function rotationStory(place: SecretPlace): Promise<void> {
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
    const refused = spawnKeyrun(place.settings);
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
    await rotationStory(embedded());
  },
);

describeWith(mongodbMissing)("with a MongoDB server", () => {
  test("keys made before and after a rotation work after a restart, on MongoDB", longer, async () => {
    await rotationStory(onMongo());
  });
});

test("start names the older secrets that no key needs, by their versions", async () => {
  const { command, newKey, start } = embedded();
  const rotate = () => command("secrets", "rotate", "--json");
  await (await start()).stop();
  await rotate();
  const middle = await start();
  await newKey();
  await middle.stop();
  const { versions } = JSON.parse((await rotate()).stdout);
  const listed = await command("secrets", "list");
  expect(listed.stdout).toBe(
    `1. version ${versions[0]}, which makes new keys\n2. version ${versions[1]}\n3. version ${versions[2]}\n`,
  );
  const logged = (await start()).stderr();
  expect(logged).toContain(`"versions":["${versions[2]}"]`);
  expect(logged).toContain("no key needs these older secrets any more");
});

test("a rotation needs no server, and says what to do where there is no file to change", async () => {
  const dataDir = newFolder();
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
