import { randomBytes, randomInt } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { afterAll, expect, test } from "vitest";
import { VerifyKeyResponse_Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { campaignSize } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { everyKind, writeEveryKind } from "../harness/copied-stores.ts";
import { eventually, whileAnswer, whileBusy } from "../harness/eventually.ts";
import { manage } from "../harness/keyrun.ts";
import {
  keyrunCommand,
  repository,
  restRun,
  type Settings,
  servedRun,
  serveKeyrun,
  spawnKeyrun,
} from "../harness/keyrun-process.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";
import { until } from "../harness/until.ts";

const folders = tempFolders();

/** After each kill, the next copy waits until the one that was killed has lapsed: 5 s. */
const kills = campaignSize("copy-kills");
const sizes = { keys: 400, runs: 10 };

/**
 * Kills the command at a random point after its first write. Returns false if it was over by then,
 * where the machine let the test stand still.
 */
async function killInTheMiddle(settings: Settings, uri: string): Promise<boolean> {
  const client = new MongoClient(uri);
  const holder = async () => Object.keys((await client.db().collection("control").findOne())?.leases ?? {});
  const before = await holder();
  const copying = spawnKeyrun(settings, [
    process.execPath,
    join(repository, "bin/keyrun.mjs"),
    "copy-to-mongodb",
  ]);
  const holds = async () => {
    const now = await holder();
    return now.some((id) => !before.includes(id));
  };
  let ended = false;
  void copying.exited.then(() => {
    ended = true;
  });
  await until(async () => ended || (await holds()), 5);
  await pause(randomInt(400));
  copying.kill("SIGKILL");
  await client.close();
  const exit = await copying.exited;
  if (exit.code === 0) return false;
  expect(exit, copying.stderr()).toEqual({ code: null, signal: "SIGKILL" });
  return true;
}

describeWith(mongodbMissing)("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  test(`a Keyrun moves to MongoDB with its keys and its secret, though its copy is killed ${kills} times`, {
    timeout: 180_000 + kills * 30_000,
  }, async () => {
    const dataDir = folders.create();
    const alone = await serveKeyrun(dataDir);
    const command = (...args: string[]) =>
      keyrunCommand({ KEYRUN_DATA_DIR: dataDir, ...internal(alone) }, args);
    const newKey = async () => (await command("keys", "create", "--team", "demo")).stdout.trim();
    const [kept, revoked] = [await newKey(), await newKey()];
    const idOf = (value: string) => value.split(".")[0] ?? "";
    await command("keys", "revoke", "--team", "demo", idOf(revoked));
    const [overlapped, ended] = [await newKey(), await newKey()];
    const rotate = async (value: string, ...options: string[]) =>
      (await command("keys", "rotate", "--team", "demo", idOf(value), ...options)).stdout.trim();
    const successors = [await rotate(overlapped, "--overlap", "1h"), await rotate(ended)];
    const before = await restRun(alone.publicUrl, { value: overlapped });
    expect([before.status, before.headers.get("x-key-replaced")]).toEqual([200, "true"]);
    const created = await command("service-tokens", "create", "gateway", "--role", "verify");
    const token = created.stdout.trim();
    let uri = databases.createUri();
    const secretFile = join(dataDir, "secret");
    const settingsFor = (uri: string) => ({
      KEYRUN_DATA_DIR: dataDir,
      KEYRUN_MONGODB_URI: uri,
      KEYRUN_SECRET_FILE: secretFile,
    });
    let settings = settingsFor(uri);
    const whileServed = await keyrunCommand(settings, ["copy-to-mongodb"]);
    expect(whileServed).toMatchObject({ code: 1, stderr: expect.stringContaining("Stop it first") });
    alone.kill("SIGTERM");
    await alone.exited;

    const source = await openSqliteStores({ dataDir });
    const [secretVersion = ""] = await source.keys.secretVersions();
    await writeEveryKind(source, { ...sizes, secretVersion });
    const expected = await everyKind(source, sizes);
    await source.close();
    const killed = async () => {
      for (let n = 0; n < kills; n += 1) {
        if (await killInTheMiddle(settings, uri)) continue;
        // A copy that is finished takes no other.
        uri = databases.createUri();
        settings = settingsFor(uri);
        return false;
      }
      return true;
    };
    await eventually(killed, { ...whileAnswer((isKilled) => !isKilled), triesMax: 5 });
    const copied = await keyrunCommand(settings, ["copy-to-mongodb"]);
    expect(copied).toMatchObject({
      code: 0,
      stdout: "Copied to MongoDB, and compared: 4 teams, 4 members, 3 apps, 412 keys and 10 kept runs.\n",
      stderr: expect.stringContaining("don't serve it any more"),
    });
    expect(await keyrunCommand(settings, ["copy-to-mongodb"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("A copy into it was finished: start Keyrun on it."),
    });
    const target = await openMongoForTest({ uri });
    expect(await everyKind(target, sizes)).toEqual(expected);
    await target.close();

    const moved = await serveKeyrun(dataDir, settings);
    expect((await servedRun(moved.publicUrl, { value: kept })).status).toBe(200);
    expect((await servedRun(moved.publicUrl, { value: kept, appId: "words" })).status).toBe(404);
    const refused = await servedRun(moved.publicUrl, { value: revoked });
    expect(refused).toMatchObject({ status: 401, body: expect.stringContaining("revoked_api_key") });
    // The rotated pairs go on, and the overlap ends when it was promised.
    const after = await servedRun(moved.publicUrl, { value: overlapped });
    expect([after.status, after.headers.get("x-key-replaced")]).toEqual([200, "true"]);
    expect(after.headers.get("x-key-expires")).toBe(before.headers.get("x-key-expires"));
    for (const value of successors) expect((await servedRun(moved.publicUrl, { value })).status).toBe(200);
    expect((await servedRun(moved.publicUrl, { value: ended })).body).toContain("revoked_api_key");
    const gateway = manage(moved.internalUrl, token);
    const { verdict } = await eventually(() => gateway.keys.verifyKey({ value: kept, cost: 0 }), whileBusy);
    expect(verdict).toBe(VerifyKeyResponse_Verdict.VALID);
    gateway.disconnect();
    moved.kill("SIGTERM");
    await moved.exited;
  });

  test("a copy without the secret that the keys need is refused, and nothing is written", async () => {
    const [dataDir, uri] = [folders.create(), databases.createUri()];
    const source = await openSqliteStores({ dataDir });
    await writeEveryKind(source, { keys: 1, runs: 0 });
    await source.close();
    const secretFile = join(folders.create(), "secret");
    writeFileSync(secretFile, `${randomBytes(32).toString("hex")}\n`, { mode: 0o600 });
    const settings = { KEYRUN_DATA_DIR: dataDir, KEYRUN_MONGODB_URI: uri, KEYRUN_SECRET_FILE: secretFile };
    expect(await keyrunCommand(settings, ["copy-to-mongodb"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("keys made with a service secret that is not there"),
    });
    const client = new MongoClient(uri);
    expect(await client.db().listCollections().toArray()).toEqual([]);
    await client.close();
  });

  test.each([
    [{}, "KEYRUN_MONGODB_URI or KEYRUN_MONGODB_URI_FILE must be set"],
    [
      { KEYRUN_MONGODB_URI: "mongodb://127.0.0.1:1/keyrun" },
      "KEYRUN_SECRET_FILE or KEYRUN_SECRET must be set",
    ],
  ])("with %j it says what is missing", async (settings, words) => {
    expect(
      await keyrunCommand({ KEYRUN_DATA_DIR: folders.create(), ...settings }, ["copy-to-mongodb"]),
    ).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(words),
    });
  });
});

function internal({ internalUrl }: { readonly internalUrl: string }): Settings {
  return { KEYRUN_GRPC_PORT: new URL(internalUrl).port };
}
