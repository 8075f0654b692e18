import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCommand } from "../harness/command-line.ts";
import { dropStory, refusedToDrop, rotationStory, secretPlaces } from "../harness/secret-places.ts";

const { embedded, newFolder } = secretPlaces();

test("keys made before and after a rotation work after a restart", () => rotationStory(embedded()));

test("the secret that a running Keyrun makes keys with is not dropped", () => dropStory(embedded()));

test("a secret that was added is not dropped before it was promoted, and the old one goes then", async () => {
  const place = embedded();
  const { command, held, secretFile, start } = place;
  await (await start()).stop();
  expect(await command("secrets", "add")).toMatchObject({ code: 0 });
  const [old, added] = held();
  const before = readFileSync(secretFile, "utf8");
  const { versions } = JSON.parse((await command("secrets", "list", "--json")).stdout);
  await refusedToDrop(place, /was added and never promoted.*`secrets promote`/);
  await refusedToDrop(place, /was added and never promoted/, versions[1]);
  expect(readFileSync(secretFile, "utf8")).toBe(before);
  expect(await command("secrets", "rotate")).toMatchObject({ code: 0 });
  await refusedToDrop(place, /was added and never promoted/);

  expect(await command("secrets", "promote")).toMatchObject({ code: 0 });
  const [, rotated] = held();
  expect(held()).toEqual([added, rotated, old]);
  expect(await command("secrets", "drop", "--yes")).toMatchObject({ code: 0 });
  expect(held()).toEqual([added, rotated]);
  expect(readFileSync(secretFile, "utf8")).toBe(`${added}\n${rotated}\n`);
});

test("a rotation needs no server, and says what to do where there is no file to change", async () => {
  const dataDir = newFolder();
  const rotate = (settings: Record<string, string>) =>
    runCommand(["secrets", "rotate"], { env: { KEYRUN_DATA_DIR: dataDir, ...settings } });
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
