import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { MongoClient } from "mongodb";
import { freePort } from "./free-port.ts";

/** A MongoDB server for tests. */
export interface MongoServer {
  readonly uri: string;
  /** Ends it by SIGKILL, as a crash would. Its data folder stays. */
  kill(): Promise<void>;
}

/** A function that starts a server on a folder, or the reason why this machine can't. */
export type MongoServerProgram =
  | { readonly start: (dataDir: string) => Promise<MongoServer> }
  | { readonly missing: string };

/** `mongod` if installed, else FerretDB if Go is: it is built once, in a minute or two. */
export function mongoServerProgram(say: (line: string) => void = () => {}): MongoServerProgram {
  if (runs("mongod", "--version")) return { start: startMongod };
  if (!runs("go", "version")) return { missing: "neither mongod nor Go is installed" };
  const built = buildFerretDb(say);
  return built
    ? { start: (dataDir) => startFerretDb(built, dataDir) }
    : { missing: "FerretDB could not be built" };
}

function runs(program: string, argument: string): boolean {
  return spawnSync(program, [argument], { stdio: "ignore" }).status === 0;
}

const ferretDbSource = fileURLToPath(new URL("ferretdb/", import.meta.url));
const ferretDbCache = fileURLToPath(new URL("../../node_modules/.cache/keyrun-ferretdb/", import.meta.url));

/** The path of the program built from these sources; undefined if the build fails. */
function buildFerretDb(say: (line: string) => void): string | undefined {
  const sources = createHash("sha256");
  for (const name of ["go.mod", "go.sum", "main.go"])
    sources.update(readFileSync(join(ferretDbSource, name)));
  const program = join(ferretDbCache, sources.digest("hex").slice(0, 16));
  if (existsSync(program)) return program;
  say("Building FerretDB for the tests on MongoDB, once: this takes a minute or two.");
  mkdirSync(ferretDbCache, { recursive: true });
  // Two test runs may build at the same time: each moves its finished program into place.
  const unfinished = `${program}.${process.pid}`;
  const build = spawnSync("go", ["build", "-trimpath", "-o", unfinished, "."], {
    cwd: ferretDbSource,
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (build.status !== 0) return undefined;
  renameSync(unfinished, program);
  return program;
}

async function startFerretDb(program: string, dataDir: string): Promise<MongoServer> {
  // FerretDB ends when its standard input does, and so never outlives this process.
  const child = spawn(program, ["-data-dir", dataDir], { stdio: ["pipe", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout }))
    return { uri: line, kill: () => kill(child) };
  throw new Error("FerretDB ended before it was ready");
}

const mongodPorts = new Map<string, number>();

async function startMongod(dataDir: string): Promise<MongoServer> {
  // A replica set keeps the ports of its members, so a folder keeps its port.
  const port = mongodPorts.get(dataDir) ?? (await freePort());
  mongodPorts.set(dataDir, port);
  const uri = `mongodb://127.0.0.1:${port}/?replicaSet=keyrun`;
  const child = spawn(
    "mongod",
    ["--replSet", "keyrun", "--bind_ip", "127.0.0.1", "--port", String(port), "--dbpath", dataDir],
    { stdio: "ignore" },
  );
  process.once("exit", () => child.kill("SIGKILL"));
  const direct = new MongoClient(`mongodb://127.0.0.1:${port}/?directConnection=true`);
  const members = [{ _id: 0, host: `127.0.0.1:${port}` }];
  await direct
    .db("admin")
    .command({ replSetInitiate: { _id: "keyrun", members } })
    // A folder in its second use has its replica set already.
    .catch((thrown: { codeName?: string }) => {
      if (thrown.codeName !== "AlreadyInitialized") throw thrown;
    });
  await direct.close();
  // The first connection to the replica set waits until its only member is the primary.
  const client = await new MongoClient(uri).connect();
  await client.close();
  return { uri, kill: () => kill(child) };
}

function kill(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", () => resolve());
    child.kill("SIGKILL");
  });
}
