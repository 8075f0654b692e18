import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { MongoClient } from "mongodb";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { startApp } from "#src/app/start.ts";
import { systemClock } from "#src/base/clock.ts";
import { createLog } from "#src/log/log.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { type Environment, readSettings } from "#src/settings/read-settings.ts";
import { openStores } from "#src/store/open-stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { freePort } from "../harness/free-port.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { startIssuer } from "../harness/issuer.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { openMongoForTest, silentInstanceEvents } from "../harness/open-mongo.ts";
import { redisMissing, startRedis } from "../harness/redis-server.ts";
import { keyRecordOf } from "../harness/store-records.ts";
import { openTcpProxy } from "../harness/tcp-proxy.ts";

const folders = tempFolders();
const databases = createMongoDatabases();
afterAll(async () => {
  await databases.drop();
});

type Settings = Record<string, string>;
const readFile = (path: string) => readFileSync(path, "utf8");
const ownPorts = { KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0" };
const secret = "s".repeat(43);
const token = "t".repeat(43);

/** For what is out of reach: a start and doctor need not wait long to know. */
const outOfReach = { storeMsMax: 500, startMsMax: 500 };

/** Starts Keyrun, in this process. */
async function start(env: Environment, bounds: { startMsMax?: number } = {}) {
  const settings = readSettings(env, readFile);
  if ("problems" in settings) throw new StartRefused(settings.problems.join("\n"));
  const config = settings.ok;
  return startApp(config, {
    clock: systemClock,
    log: createLog({ level: "silent", destination: { write() {} } }),
    version: "0.0.0-test",
    nodeVersion: process.versions.node,
    openStores: () => openStores(config, { clock: systemClock, events: silentInstanceEvents, ...bounds }),
    announce: () => {},
  });
}

async function refusalOf(env: Environment, bounds?: { startMsMax: number }): Promise<string> {
  const outcome = await start(env, bounds).then(
    (app) => app.close(),
    (thrown: unknown) => thrown,
  );
  if (!(outcome instanceof StartRefused)) throw new Error(`the start was not refused: ${String(outcome)}`);
  return outcome.message;
}

async function doctor(env: Environment, bounds: { storeMsMax?: number } = {}) {
  const { code, stdout } = await runCommand(["doctor", "--json"], { env, ...bounds });
  const checks: { name: string; ok: boolean; warning?: true; message: string }[] = JSON.parse(stdout).checks;
  return { code, checks, wrong: checks.filter(({ ok }) => !ok) };
}

/** A folder with the store of a Keyrun that has a key. */
async function usedFolder(): Promise<string> {
  const dataDir = folders.create();
  const app = await start({ ...ownPorts, KEYRUN_DATA_DIR: dataDir });
  await app.close();
  const stores = await openStores(
    { dataDir, mongodbUri: undefined },
    { clock: systemClock, events: silentInstanceEvents },
  );
  const key = keyRecordOf({ id: "k", teamId: "demo", secretVersion: "0a1b2c3d" });
  await stores.keys.insert(key, { activeMax: 5 });
  await stores.close();
  return dataDir;
}

async function takenPort(): Promise<string> {
  const port = await freePort();
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  onTestFinished(() => new Promise<void>((closed) => server.close(() => closed())));
  return String(port);
}

function folderWith(name: string, text: string): string {
  const dataDir = folders.create();
  writeFileSync(join(dataDir, name), text, { mode: 0o600 });
  return dataDir;
}

const tlsFiles = (path: string) => ({
  KEYRUN_GRPC_TLS_CERT_FILE: path,
  KEYRUN_GRPC_TLS_KEY_FILE: path,
  KEYRUN_GRPC_TLS_CLIENT_CA_FILE: path,
});

/** What a start refuses, and the check of doctor that finds it. */
const refused: Record<string, readonly [check: string, make: () => Settings | Promise<Settings>]> = {
  "an unknown setting": ["settings", () => ({ KEYRUN_PROT: "1" })],
  "a public URL that sign-in needs": ["settings", () => ({ KEYRUN_OIDC_ISSUER: "https://login.example" })],
  "a public URL with a path": ["settings", () => ({ KEYRUN_PUBLIC_URL: "https://keyrun.example/x" })],
  "a secret with MongoDB": ["settings", () => ({ KEYRUN_MONGODB_URI: "mongodb://127.0.0.1/keyrun" })],
  "two listeners on one port": ["settings", () => ({ KEYRUN_PORT: "9999", KEYRUN_GRPC_PORT: "9999" })],
  "a damaged secret file": ["secret", () => ({ KEYRUN_DATA_DIR: folderWith("secret", "c2hvcnQ\n") })],
  "a damaged token file": ["token file", () => ({ KEYRUN_DATA_DIR: folderWith("service-token", "short\n") })],
  "a store that is no database": [
    "store",
    () => ({ KEYRUN_DATA_DIR: folderWith("keyrun.db", "no database ".repeat(1_000)) }),
  ],
  "a store of a newer schema": [
    "store",
    async () => {
      const dataDir = await usedFolder();
      const db = new DatabaseSync(join(dataDir, "keyrun.db"));
      db.exec("PRAGMA user_version = 99");
      db.close();
      return { KEYRUN_DATA_DIR: dataDir };
    },
  ],
  "a lock that can't be opened": [
    "store",
    () => {
      const dataDir = folders.create();
      mkdirSync(join(dataDir, "keyrun.lock"));
      return { KEYRUN_DATA_DIR: dataDir };
    },
  ],
  "a secret that a key needs": ["secret", async () => ({ KEYRUN_DATA_DIR: await usedFolder() })],
  "a data folder below a file": ["data folder", () => ({ KEYRUN_DATA_DIR: "/dev/null/keyrun" })],
  "a data folder that is a file": [
    "data folder",
    () => ({ KEYRUN_DATA_DIR: join(folderWith("file", ""), "file") }),
  ],
  "TLS files that are not there": ["tls", () => tlsFiles("/nowhere.pem")],
  "TLS files without certificate and key": ["tls", () => tlsFiles("/dev/null")],
  "a taken port": ["ports", async () => ({ KEYRUN_PORT: await takenPort() })],
  "a taken internal port": ["ports", async () => ({ KEYRUN_GRPC_PORT: await takenPort() })],
  "a host of another machine": ["ports", () => ({ KEYRUN_HOST: "192.0.2.1" })],
  "a MongoDB URI that can't be read": [
    "settings",
    () => ({ KEYRUN_MONGODB_URI: "mongodb://a:p%ss/w@host", KEYRUN_SECRET: secret }),
  ],
  "a MongoDB that is not there": [
    "mongodb",
    async () => ({
      KEYRUN_MONGODB_URI: `mongodb://127.0.0.1:${await freePort()}/keyrun`,
      KEYRUN_SECRET: secret,
    }),
  ],
};

describe("what a start refuses, doctor names with the same words, and exits 1:", () => {
  test.each(Object.entries(refused))("%s", async (_, [check, make]) => {
    const made = await make();
    const env = { ...ownPorts, KEYRUN_DATA_DIR: folders.create(), ...made };
    // First doctor: a start may leave files behind, such as a new lock.
    const { code, wrong } = await doctor(env, outOfReach);
    const refusal = await refusalOf(env, outOfReach);
    expect(code).toBe(1);
    expect(wrong.map(({ name }) => name)).toContain(check);
    const words = wrong.filter(({ name }) => name === check).map(({ message }) => message);
    // The need that the folder does not meet is told differently.
    const told = (text: string) =>
      text.replace(/used as a store|written/, "…").replace(/ \(.*?\)\. Set/, ". Set");
    expect(told(words.join("\n"))).toBe(told(refusal));
    expect(words.join("\n")).not.toContain("ss/w");
  });
});

test("doctor goes on after settings that can't be read, with every check that needs none of them", async () => {
  const dataDir = folderWith("service-token", "short\n");
  const env = { ...ownPorts, KEYRUN_DATA_DIR: dataDir, ...tlsFiles("/nowhere.pem") };
  const { code, checks, wrong } = await doctor({ ...env, KEYRUN_PORT: "many", KEYRUN_PROT: "1" });
  expect(code).toBe(1);
  expect(wrong.map(({ name }) => name)).toEqual(["settings", "settings", "tls", "token file"]);
  expect(checks.map(({ name }) => name)).toEqual(expect.arrayContaining(["store", "secret", "server"]));
  // Neither looks at another store than the one that is meant, nor at another port.
  expect(checks.map(({ name }) => name)).not.toContain("ports");
  const lost = await doctor({ ...ownPorts, KEYRUN_DATA_DIR: dataDir, KEYRUN_MONGODB_URI: "mongo" });
  expect(lost.checks.map(({ name }) => name)).not.toContain("store");
});

describe("where a start succeeds, doctor exits 0 and leaves the store as it was:", () => {
  const wellFolders: Record<string, () => string | Promise<string>> = {
    "a folder that is not there": () => join(folders.create(), "new", "data"),
    "an empty folder": () => folders.create(),
    "a folder that was served": async () => {
      const dataDir = folders.create();
      await (await start({ ...ownPorts, KEYRUN_DATA_DIR: dataDir })).close();
      return dataDir;
    },
    "a store of an older schema": async () => {
      const dataDir = folders.create();
      const db = new DatabaseSync(join(dataDir, "keyrun.db"));
      db.exec("PRAGMA journal_mode = WAL");
      db.close();
      return dataDir;
    },
    "what a killed process left": async () => {
      const dataDir = folders.create();
      const app = await start({ ...ownPorts, KEYRUN_DATA_DIR: dataDir });
      const left = folders.create();
      for (const name of readdirSync(dataDir)) {
        if (!name.startsWith("keyrun.lock"))
          writeFileSync(join(left, name), readFileSync(join(dataDir, name)), { mode: 0o600 });
      }
      await app.close();
      return left;
    },
  };
  test.each(Object.entries(wellFolders))("%s", async (_, make) => {
    const env = { ...ownPorts, KEYRUN_DATA_DIR: await make() };
    const { code, wrong, checks } = await doctor(env);
    expect({ code, wrong }).toEqual({ code: 0, wrong: [] });
    expect(checks.find(({ name }) => name === "server")?.message).toContain("does not run");
    await (await start(env)).close();
  });

  test("doctor makes no folder and no file", async () => {
    const parent = folders.create();
    expect((await doctor({ ...ownPorts, KEYRUN_DATA_DIR: join(parent, "a", "b") })).code).toBe(0);
    expect(readdirSync(parent)).toEqual([]);
    expect((await doctor({ ...ownPorts, KEYRUN_DATA_DIR: parent })).code).toBe(0);
    expect(readdirSync(parent)).toEqual([]);
  });

  test("a running server, which goes on undisturbed", async () => {
    const env = { ...ownPorts, KEYRUN_DATA_DIR: folders.create() };
    const app = await start(env);
    onTestFinished(() => app.close());
    for (let n = 0; n < 3; n++) {
      const { code, wrong, checks } = await doctor(env);
      expect({ code, wrong }).toEqual({ code: 0, wrong: [] });
      expect(checks.map(({ name }) => name)).toContain("token");
    }
    const { host, port } = app.publicAddress;
    expect((await fetch(`http://${host}:${port}/readyz`)).status).toBe(200);
    await expect(start(env)).rejects.toThrow("already serves the data folder");
  });

  test("a server that a command can't reach is wrong, because the store is held", async () => {
    const env = { ...ownPorts, KEYRUN_DATA_DIR: folders.create() };
    const app = await start(env);
    onTestFinished(() => app.close());
    rmSync(join(env.KEYRUN_DATA_DIR, "grpc-address"));
    const { code, wrong } = await doctor(env);
    expect(code).toBe(1);
    expect(wrong).toMatchObject([{ name: "server", message: expect.stringContaining("holds the store") }]);
  });
});

describe("of the issuer that people sign in with, doctor", () => {
  const publicUrl = "http://127.0.0.1:9";
  const settings = (issuer: string) => ({
    ...ownPorts,
    KEYRUN_DATA_DIR: folders.create(),
    KEYRUN_PUBLIC_URL: publicUrl,
    KEYRUN_OIDC_ISSUER: issuer,
    KEYRUN_OIDC_CLIENT_ID: "keyrun",
    KEYRUN_OIDC_CLIENT_SECRET: "QqZz77",
  });

  test("says that it answers", async () => {
    const issuer = await startIssuer(`${publicUrl}/sign-in/callback`);
    onTestFinished(() => issuer.close());
    const { code, checks } = await doctor(settings(issuer.url));
    expect(code).toBe(0);
    expect(checks).toContainEqual({ name: "issuer", ok: true, message: `${issuer.url} answers` });
  });

  test("says the innermost cause where it does not, and goes on with the other checks", async () => {
    const port = await freePort();
    const other = await startIssuer(`${publicUrl}/sign-in/callback`);
    onTestFinished(() => other.close());
    const causes: Record<string, string> = {
      [`http://127.0.0.1:${port}`]: `connect ECONNREFUSED 127.0.0.1:${port}`,
      "https://issuer.invalid": "getaddrinfo (ENOTFOUND|EAI_AGAIN) issuer.invalid",
      // It answers, and calls itself by another name.
      [other.url.replace("127.0.0.1", "localhost")]: "issuer does not match the expected issuer",
    };
    for (const [issuer, cause] of Object.entries(causes)) {
      const { code, wrong, checks } = await doctor(settings(issuer));
      expect(code).toBe(1);
      expect(wrong).toEqual([{ name: "issuer", ok: false, message: expect.stringMatching(cause) }]);
      expect(JSON.stringify(wrong)).not.toMatch(/fetch failed|QqZz77/);
      expect(checks.map(({ name }) => name)).toEqual(expect.arrayContaining(["token file", "ports"]));
    }
  });
});

describeWith(mongodbMissing)("with a MongoDB server, doctor", () => {
  const settings = (uri: string) => ({
    ...ownPorts,
    KEYRUN_DATA_DIR: folders.create(),
    KEYRUN_MONGODB_URI: uri,
    KEYRUN_SECRET: secret,
    KEYRUN_SERVICE_TOKEN: token,
  });

  test("exits 0 for an empty database and for one that a running server serves, and names its schema", async () => {
    const env = settings(databases.createUri());
    expect(await doctor(env)).toMatchObject({ code: 0, wrong: [] });
    const app = await start(env);
    onTestFinished(() => app.close());
    const { code, checks, wrong } = await doctor(env);
    expect({ code, wrong }).toEqual({ code: 0, wrong: [] });
    expect(checks.find(({ name }) => name === "mongodb")?.message).toMatch(/^database .+, schema \d+, .+/);
  });

  test("warns of a server that is no replica set, and of no other, as a start does", async () => {
    const uri = databases.createUri();
    const client = await new MongoClient(uri).connect();
    const isSet = typeof (await client.db().command({ hello: 1 })).setName === "string";
    await client.close();
    const { code, checks } = await doctor(settings(uri));
    const found = checks.find(({ name }) => name === "mongodb");
    expect({ code, warning: found?.warning ?? false }).toEqual({ code: 0, warning: !isSet });
    expect(/ no replica set: .* may be lost with the server.*--replSet/.test(found?.message ?? "")).toBe(
      !isSet,
    );
    expect((await runCommand(["doctor"], { env: settings(uri) })).stdout).toMatch(
      isSet ? /^ok {5}mongodb: / : /^warn {3}mongodb: /m,
    );
    let warnings = 0;
    const stores = await openMongoForTest({ uri, onNoReplicaSet: () => void warnings++ });
    await stores.close();
    expect(warnings).toBe(isSet ? 0 : 1);
  });

  test("names a newer schema and a missing secret, as a start does", async () => {
    const uri = databases.createUri();
    const env = settings(uri);
    await (await start(env)).close();
    const other = { ...env, KEYRUN_SECRET: "o".repeat(43) };
    const stores = await openStores(
      { dataDir: "", mongodbUri: uri },
      { clock: systemClock, events: silentInstanceEvents },
    );
    await stores.keys.insert(keyRecordOf({ id: randomUUID(), teamId: "demo" }), { activeMax: 5 });
    await stores.close();
    const missing = await doctor(other);
    expect(missing).toMatchObject({ code: 1, wrong: [{ name: "secret", message: await refusalOf(other) }] });
    expect(missing.wrong[0]?.message).toContain("version 0a1b2c3d");

    const client = await new MongoClient(uri).connect();
    await client
      .db()
      .collection<{ _id: string }>("meta")
      .updateOne({ _id: "schema" }, { $set: { version: 99 } });
    await client.close();
    const newer = await doctor(env);
    expect(newer).toMatchObject({ code: 1, wrong: [{ name: "mongodb", message: await refusalOf(env) }] });
  });

  test("names a MongoDB that stops answering in the middle of the look, and goes on with the other checks", async () => {
    const uri = databases.createUri();
    const [, host = "", port = ""] = /^mongodb:\/\/([^:/]+):(\d+)/.exec(uri) ?? [];
    const proxy = await openTcpProxy({ host, port: Number(port) });
    onTestFinished(() => proxy.close());
    const near = new URL(uri.replace(`${host}:${port}`, `127.0.0.1:${proxy.port}`));
    // Otherwise the driver would go to the address that the server gives for itself.
    near.search = "?directConnection=true";
    // A word of the last command that tries a write: whether a fleet's record could be changed.
    proxy.freezeOn("joined");
    const { code, checks, wrong } = await doctor(settings(near.href), { storeMsMax: 2_000 });
    expect(code).toBe(1);
    expect(wrong).toMatchObject([
      {
        name: "mongodb",
        message: expect.stringContaining(`127.0.0.1:${proxy.port} can't be reached in time`),
      },
    ]);
    expect(checks.map(({ name }) => name)).toEqual(expect.arrayContaining(["token file", "server", "ports"]));
  });

  test("says of a server that has lost its MongoDB that it runs, and not that its ports are taken", async () => {
    const uri = databases.createUri();
    const [, host = "", port = ""] = /^mongodb:\/\/([^:/]+):(\d+)/.exec(uri) ?? [];
    const proxy = await openTcpProxy({ host, port: Number(port) });
    onTestFinished(() => proxy.close());
    const near = new URL(uri.replace(`${host}:${port}`, `127.0.0.1:${proxy.port}`));
    near.search = "?directConnection=true";
    const ports = { KEYRUN_PORT: String(await freePort()), KEYRUN_GRPC_PORT: String(await freePort()) };
    const env = { ...settings(near.href), ...ports };
    const app = await start(env);
    onTestFinished(() => app.close());
    proxy.cut();
    const readyz = `http://127.0.0.1:${app.publicAddress.port}/readyz`;
    await expect.poll(async () => (await fetch(readyz)).status).toBe(503);
    const { code, checks, wrong } = await doctor(env, outOfReach);
    expect(code).toBe(1);
    expect(wrong).toMatchObject([
      { name: "mongodb", message: expect.stringContaining("can't be reached") },
      { name: "server", message: expect.stringContaining("and does not serve now: it has lost its store") },
    ]);
    expect(checks.map(({ name }) => name)).not.toContain("ports");
    proxy.mend();
  });

  test("gives up where MongoDB accepts and never answers", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void silent.close());
    const { port } = silent.address() as { port: number };
    const { code, wrong } = await doctor(settings(`mongodb://127.0.0.1:${port}/keyrun`), outOfReach);
    expect(code).toBe(1);
    expect(wrong[0]).toMatchObject({ name: "mongodb", message: expect.stringContaining("can't be reached") });
  });
});

describeWith(mongodbMissing ?? redisMissing())("for an instance of a fleet, doctor", () => {
  const password = "QqZz77";
  const settings = (mongodb: string, redis: string) => ({
    ...ownPorts,
    KEYRUN_DATA_DIR: folders.create(),
    KEYRUN_MONGODB_URI: mongodb,
    KEYRUN_REDIS_URL: redis,
    KEYRUN_SECRET: secret,
    KEYRUN_SERVICE_TOKEN: token,
  });
  async function redisWith(options: readonly string[]) {
    const server = await startRedis(options);
    onTestFinished(() => server.kill());
    return server;
  }
  async function documentsOf(uri: string) {
    const client = await new MongoClient(uri).connect();
    try {
      const collections = (await client.db().listCollections().toArray()).map(({ name }) => name);
      const found = collections.toSorted().map((name) => client.db().collection(name).find().toArray());
      return await Promise.all(found);
    } finally {
      await client.close();
    }
  }

  const unfit: Record<string, () => Promise<number>> = {
    "that is not there": () => freePort(),
    "with another password": async () => (await redisWith(["--requirepass", "other"])).port,
    "that is a cluster": async () => (await redisWith(["--cluster-enabled", "yes"])).port,
    "that evicts": async () => (await redisWith(["--maxmemory-policy", "allkeys-lru"])).port,
    "that is a replica": async () => (await redisWith(["--replicaof", "127.0.0.1 1"])).port,
  };
  test.each(Object.entries(unfit))(
    "names a Redis %s with the words of a start, and never its URL",
    async (name, make) => {
      const login = name.includes("password") ? `:${password}@` : "";
      const url = `redis://${login}127.0.0.1:${await make()}`;
      const env = settings(databases.createUri(), url);
      const { code, checks, wrong } = await doctor(env);
      expect(code).toBe(1);
      expect(wrong).toEqual([{ name: "redis", ok: false, message: await refusalOf(env) }]);
      expect(JSON.stringify(checks)).not.toMatch(/redis:\/\/|QqZz77/);
      expect(checks.map(({ name }) => name)).toEqual(expect.arrayContaining(["fleet", "server", "ports"]));
    },
  );

  test("says how many instances serve the database, and changes nothing in it", async () => {
    const uri = databases.createUri();
    const redis = await redisWith([]);
    const env = settings(uri, redis.url);
    const fleet = async () => {
      const { code, checks, wrong } = await doctor(env);
      expect({ code, wrong }).toEqual({ code: 0, wrong: [] });
      return checks.find(({ name }) => name === "fleet")?.message;
    };
    expect(await fleet()).toBe("no instance serves the database");
    expect((await documentsOf(uri)).flat()).toEqual([]);

    const one = await start({ ...env, KEYRUN_DATA_DIR: folders.create() });
    onTestFinished(() => one.close());
    expect(await fleet()).toBe("1 instance serves the database");
    const two = await start({ ...env, KEYRUN_DATA_DIR: folders.create() });
    onTestFinished(() => two.close());
    expect(await fleet()).toBe("2 instances serve the database");
    const { KEYRUN_REDIS_URL: _, ...alone } = env;
    expect(await doctor(alone)).toMatchObject({
      code: 1,
      wrong: [{ name: "fleet", message: expect.stringContaining("of which 2 instances were active") }],
    });

    await two.close();
    await one.close();
    const left = await documentsOf(uri);
    expect(await fleet()).toBe("no instance serves the database");
    expect(await documentsOf(uri)).toEqual(left);
  });

  test("names what keeps this instance from joining those that serve, with the words of a start", async () => {
    const redis = await redisWith([]);
    const env = settings(databases.createUri(), redis.url);
    const one = await start(env);
    onTestFinished(() => one.close());
    const others: Record<string, Settings> = {
      KEYRUN_SERVICE_TOKEN: { KEYRUN_SERVICE_TOKEN: "o".repeat(43) },
      KEYRUN_KEY_PREFIX: { KEYRUN_KEY_PREFIX: "other" },
      "put it last": { KEYRUN_SECRET: `${"n".repeat(43)}\n${secret}` },
    };
    for (const [remedy, other] of Object.entries(others)) {
      const refused = { ...env, ...other, KEYRUN_DATA_DIR: folders.create() };
      const { code, wrong } = await doctor(refused);
      expect(code).toBe(1);
      const { message } = wrong.find(({ name }) => name === "fleet") ?? {};
      expect(message?.toLowerCase()).toContain(remedy.toLowerCase());
      expect(message).toBe(await refusalOf(refused));
    }
    expect(await doctor(env)).toMatchObject({ code: 0, wrong: [] });
  });

  test("names a Redis that is another one, or another fleet's, with the words of a start", async () => {
    const [redis, other] = [await redisWith([]), await redisWith([])];
    const env = settings(databases.createUri(), redis.url);
    const one = await start(env);
    onTestFinished(() => one.close());
    const { checks } = await doctor(env);
    expect(checks.find(({ name }) => name === "redis")?.message).toMatch(
      /^it can be written, evicts nothing, and is that of this fleet \(id [0-9a-f]{12}\)$/,
    );
    const elsewhere = await doctor({ ...env, KEYRUN_REDIS_URL: other.url });
    expect(elsewhere.wrong).toMatchObject([
      {
        name: "redis",
        message: expect.stringContaining("it is another Redis than the one in which the other"),
      },
    ]);
    // The look has not marked it.
    const foreign = await start(settings(databases.createUri(), other.url));
    onTestFinished(() => foreign.close());
    const taken = await doctor({ ...env, KEYRUN_REDIS_URL: other.url });
    expect(taken.wrong).toMatchObject([
      { name: "redis", message: expect.stringContaining("it is in use by another fleet, of id") },
    ]);
  });

  test("does not count an instance that was killed, and names one that serves the database alone", async () => {
    const uri = databases.createUri();
    const redis = await redisWith([]);
    const env = settings(uri, redis.url);
    const { KEYRUN_REDIS_URL: _, ...alone } = env;
    const app = await start({ ...alone, KEYRUN_DATA_DIR: folders.create() });
    onTestFinished(() => app.close());
    const client = await new MongoClient(uri).connect();
    onTestFinished(() => client.close());
    const lease = { n: 1, ack: 0, order: 1, facts: instanceFactsOf() };
    await client
      .db()
      .collection<{ _id: string }>("control")
      .updateOne({ _id: "control" }, { $set: { [`leases.${randomUUID()}`]: lease } });
    const { code, wrong } = await doctor(env);
    expect(code).toBe(1);
    expect(wrong.find(({ name }) => name === "fleet")?.message).toMatch(
      /^A Keyrun without KEYRUN_REDIS_URL serves this MongoDB database alone/,
    );
    await app.close();
    const after = await doctor(env);
    expect(after.checks.find(({ name }) => name === "fleet")?.message).toBe(
      "no instance serves the database",
    );
  });
});
