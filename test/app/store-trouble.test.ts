import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { MongoClient } from "mongodb";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { Health, HealthCheckResponse_ServingStatus as Serving } from "#gen/grpc/health/v1/health_pb.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { restRun, statusOf } from "../harness/keyrun-process.ts";
import { withDatabase } from "../harness/mongo-databases.ts";
import { mongoServerProgram } from "../harness/mongo-server.ts";
import { mongodbUri } from "../harness/needs.ts";
import { openTcpProxy } from "../harness/tcp-proxy.ts";
import { createTempFolders, databasesFolder } from "../harness/temp-folders.ts";

const folders = tempFolders();
const databases = createTempFolders(databasesFolder);
afterAll(databases.remove);

async function serve(settings: Record<string, string>): Promise<Keyrun> {
  const keyrun = await startKeyrun({ settings });
  onTestFinished(() => keyrun.close());
  return keyrun;
}

function becomes({ publicUrl }: Keyrun, status: number): Promise<void> {
  return expect.poll(() => statusOf(`${publicUrl}/readyz`)).toBe(status);
}

function healthOf({ internalUrl }: Keyrun) {
  const sessionManager = new Http2SessionManager(internalUrl);
  onTestFinished(() => sessionManager.abort());
  return createClient(Health, createGrpcTransport({ baseUrl: internalUrl, sessionManager }));
}

/** The log lines about the store's answers, with their causes. */
function storeLines({ logLines }: Keyrun) {
  return logLines.filter((line) => line.includes('"the store ')).map((line) => JSON.parse(line));
}

test("while the files of the store are overwritten, readiness is 503 and says why once, and it heals with them", async () => {
  const dataDir = folders.create();
  const keyrun = await serve({ KEYRUN_DATA_DIR: dataDir });
  const { value } = await keyrun.newKey("demo");
  const health = healthOf(keyrun);
  const statuses: Serving[] = [];
  const watching = (async () => {
    for await (const { status } of health.watch({})) {
      statuses.push(status);
      if (statuses.length === 3) return;
    }
  })();

  await overwrite(dataDir);
  expect((await restRun(keyrun.publicUrl, { value })).status).toBe(500);
  await becomes(keyrun, 503);
  const answer = await fetch(`${keyrun.publicUrl}/readyz`);
  expect(await answer.text()).toBe("the store does not answer as it should\n");
  expect((await health.check({})).status).toBe(Serving.NOT_SERVING);
  for (let n = 0; n < 200; n++) expect(await statusOf(`${keyrun.publicUrl}/readyz`)).toBe(503);
  expect(storeLines(keyrun)).toMatchObject([
    {
      level: "error",
      msg: expect.stringContaining("this instance is not ready"),
      cause: { message: "file is not a database" },
    },
  ]);

  await putBack(dataDir);
  await becomes(keyrun, 200);
  expect((await restRun(keyrun.publicUrl, { value })).status).toBe(200);
  expect(storeLines(keyrun).map(({ level }) => level)).toEqual(["error", "info"]);
  await watching;
  expect(statuses).toEqual([Serving.SERVING, Serving.NOT_SERVING, Serving.SERVING]);
});

const files = ["keyrun.db", "keyrun.db-wal", "keyrun.db-shm"];

/**
 * Keeps copies of the database's files, and writes other bytes over them in place. Another process
 * does it: a process that closes a file of a database loses its locks on it.
 */
function overwrite(dataDir: string) {
  return elsewhere(`
    const { copyFileSync, openSync, statSync, writeSync } = require("node:fs");
    for (const name of ${JSON.stringify(files)}) {
      const path = "${dataDir}/" + name;
      copyFileSync(path, path + ".copy");
      writeSync(openSync(path, "r+"), Buffer.alloc(statSync(path).size, 0xab));
    }`);
}

function putBack(dataDir: string) {
  return elsewhere(`
    const { openSync, readFileSync, writeSync } = require("node:fs");
    for (const name of ${JSON.stringify(files)}) {
      const path = "${dataDir}/" + name;
      writeSync(openSync(path, "r+"), readFileSync(path + ".copy"));
    }`);
}

function elsewhere(program: string) {
  return promisify(execFile)(process.execPath, ["--eval", program]);
}

describe.skipIf(mongodbUri === "" || process.env.KEYRUN_TEST_MONGODB_URI)(
  "with a MongoDB server to stop",
  () => {
    test("readiness is 503 while the server is stopped, and 200 once it is back", async () => {
      const program = mongoServerProgram();
      if ("missing" in program) throw new Error(program.missing);
      const place = databases.create();
      let server = await program.start(place);
      // A server may come back on another port; through a proxy it stays in one place.
      const target = addressOf(server.uri);
      const proxy = await openTcpProxy(target);
      onTestFinished(async () => {
        await proxy.close();
        await server.kill();
      });
      const keyrun = await serve({
        KEYRUN_MONGODB_URI: `${withDatabase(`mongodb://127.0.0.1:${proxy.port}/`, "keyrun")}?directConnection=true`,
        KEYRUN_SECRET: Buffer.alloc(32, 7).toString("base64url"),
      });
      const health = healthOf(keyrun);
      await server.kill();
      await becomes(keyrun, 503);
      expect((await health.check({})).status).toBe(Serving.NOT_SERVING);
      server = await program.start(place);
      Object.assign(target, addressOf(server.uri));
      await becomes(keyrun, 200);
      expect((await health.check({})).status).toBe(Serving.SERVING);
    });
  },
);

function addressOf(uri: string): { host: string; port: number } {
  const [host = "", port = "27017"] = new MongoClient(uri).options.hosts.map(String)[0]!.split(":");
  return { host, port: Number(port) };
}
