import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MongoClient } from "mongodb";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createControlStore } from "#src/store/mongo/control-store.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { keyrunCommand, type ServingKeyrun, type Settings, serveKeyrun } from "../harness/keyrun-process.ts";
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

/** Each test starts several servers. */
const longer = { timeout: 300_000 };

/** A Keyrun with these settings, and the file of its secrets. */
function placeOf(secretFile: string, settings: Settings) {
  const command = (...args: string[]) => keyrunCommand(settings, args);
  const held = () => readFileSync(secretFile, "utf8").trim().split("\n");
  return {
    command,
    held,
    async start(): Promise<ServingKeyrun> {
      const keyrun = await serveKeyrun(settings.KEYRUN_DATA_DIR ?? "", settings);
      running.push(keyrun);
      return keyrun;
    },
    async refusedToDrop(words: RegExp): Promise<void> {
      const before = held();
      const { code, stderr } = await command("secrets", "drop");
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(words) });
      expect(held()).toEqual(before);
      for (const text of before) expect(stderr).not.toContain(text);
    },
  };
}

function embedded() {
  const dataDir = folders.create();
  return placeOf(join(dataDir, "secret"), { KEYRUN_DATA_DIR: dataDir });
}

function onMongo(more: Settings = {}) {
  const secretFile = join(folders.create(), "keyrun-secret");
  writeFileSync(secretFile, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600 });
  const uri = databases.createUri();
  const settings = {
    ...{ KEYRUN_DATA_DIR: folders.create(), KEYRUN_MONGODB_URI: uri, KEYRUN_SECRET_FILE: secretFile },
    ...more,
  };
  return { ...placeOf(secretFile, settings), uri };
}

async function stop(keyrun: ServingKeyrun): Promise<void> {
  keyrun.kill("SIGTERM");
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
}

/** The running server knows the old secret alone, and no key needs that yet. */
async function dropStory({ command, held, start, refusedToDrop }: ReturnType<typeof placeOf>) {
  const first = await start();
  expect(await command("secrets", "rotate")).toMatchObject({ code: 0 });
  const [newest] = held();
  await refusedToDrop(/may still make keys with version \w{8}\. Stop it first/);
  await stop(first);

  expect(await command("secrets", "drop")).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("Start Keyrun again"),
  });
  expect(held()).toEqual([newest]);
  await stop(await start());
}

test(
  "the secret that a running Keyrun makes keys with is not dropped, on the embedded store",
  longer,
  async () => {
    await dropStory(embedded());
  },
);

describe.skipIf(mongodbUri === "")("with a MongoDB server", () => {
  test("the secret that a running Keyrun makes keys with is not dropped, on MongoDB", longer, async () => {
    await dropStory(onMongo());
  });

  test(
    "nor that of a Keyrun alone that is suspended, or was killed and left its record",
    longer,
    async () => {
      const { command, start, refusedToDrop } = onMongo();
      const suspended = await start();
      expect(await command("secrets", "rotate")).toMatchObject({ code: 0 });
      suspended.kill("SIGSTOP");
      await refusedToDrop(/is suspended or was killed.* Start Keyrun again/);
      suspended.kill("SIGKILL");
      await suspended.exited;
      await refusedToDrop(/is suspended or was killed/);
      // The next one takes the record over, and leaves without one.
      await stop(await start());
      expect(await command("secrets", "drop")).toMatchObject({ code: 0 });
    },
  );

  test("nor that of an instance of a fleet that is silent for the moment", longer, async () => {
    const { command, held, refusedToDrop, uri } = onMongo({
      KEYRUN_REDIS_URL: "redis://127.0.0.1:1",
      KEYRUN_SERVICE_TOKEN: randomBytes(32).toString("base64url"),
    });
    const [old = ""] = held();
    const client = new MongoClient(uri);
    const control = createControlStore(collectionsOf(client.db()), {
      call: (work) => work(),
      freshRead: {},
    });
    const id = randomUUID();
    const { versions } = createServiceSecrets([Buffer.from(old, "base64url")]);
    await control.register(id, instanceFactsOf({ secretVersions: versions }));
    expect(await command("secrets", "add")).toMatchObject({ code: 0 });
    expect(await command("secrets", "promote")).toMatchObject({ code: 0 });
    await refusedToDrop(/The instance at 10\.0\.0\.1:8081 still makes keys with version \w{8}/);
    await control.fence(id);
    await refusedToDrop(/The instance at 10\.0\.0\.1:8081 still makes keys with version \w{8}/);
    await control.remove(id);
    await client.close();
    expect(await command("secrets", "drop")).toMatchObject({ code: 0 });
  });
});
