import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { MongoClient } from "mongodb";

/** A MongoDB server of the tests' own. */
export interface MongoServer {
  readonly uri: string;
  /** Ends it by SIGKILL, as a crash does; its data folder stays. */
  kill(): Promise<void>;
}

/** How to start a server on a folder, or why that can't be done here. */
export type MongoServerProgram =
  | { readonly start: (dataDir: string) => Promise<MongoServer> }
  | { readonly missing: string };

/** `mongod` where it is installed, else FerretDB where Go is: built once, which takes a minute or two. */
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

/** The path of the program for just these sources; undefined where Go can't build it. */
function buildFerretDb(say: (line: string) => void): string | undefined {
  const sources = createHash("sha256");
  for (const name of ["go.mod", "go.sum", "main.go"])
    sources.update(readFileSync(join(ferretDbSource, name)));
  const program = join(ferretDbCache, sources.digest("hex").slice(0, 16));
  if (existsSync(program)) return program;
  say("Building FerretDB for the tests on MongoDB, once: this takes a minute or two.");
  mkdirSync(ferretDbCache, { recursive: true });
  // Test runs at once may build at once: each moves its own whole program into place.
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
  // It ends with its standard input, and so with this process, however that ends.
  const child = spawn(program, ["-data-dir", dataDir], { stdio: ["pipe", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout }))
    return { uri: line, kill: () => kill(child) };
  throw new Error("FerretDB ended before it was ready");
}

const mongodPorts = new Map<string, number>();

async function startMongod(dataDir: string): Promise<MongoServer> {
  // A replica set remembers its members' ports.
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
    // A folder that was used before has its replica set already.
    .catch((thrown: { codeName?: string }) => {
      if (thrown.codeName !== "AlreadyInitialized") throw thrown;
    });
  await direct.close();
  // The first connection to the replica set waits until the one member is its primary.
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

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}
