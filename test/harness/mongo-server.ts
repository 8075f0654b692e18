import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { MongoClient } from "mongodb";
import { buildGoPrograms } from "./built-program.ts";
import { freePort } from "./free-port.ts";

/** A MongoDB server for tests. */
export interface MongoServer {
  readonly uri: string;
  /** Ends it by SIGKILL, as a crash would. Its data folder stays. */
  kill(): Promise<void>;
}

/** A function that starts a server on a folder, or the reason why this machine can't. */
export type MongoServerProgram =
  | { readonly start: (dataDir: string, address?: MongoAddress) => Promise<MongoServer> }
  | { readonly missing: string };

/** Where a server listens beside the loopback, or in its place. */
export interface MongoAddress {
  readonly host: string;
  readonly port: number;
}

/** `mongod` if installed, else FerretDB if Go is: it is built once, in a minute or two. */
export function mongoServerProgram(say: (line: string) => void = () => {}): MongoServerProgram {
  if (runs("mongod", "--version")) return { start: startMongod };
  if (!runs("go", "version")) return { missing: "neither mongod nor Go is installed" };
  const built = buildFerretDb(say);
  return built
    ? { start: (dataDir, address) => startFerretDb(built, dataDir, address) }
    : { missing: "FerretDB could not be built" };
}

function runs(program: string, argument: string): boolean {
  return spawnSync(program, [argument], { stdio: "ignore" }).status === 0;
}

/** The path of the program; undefined if the build fails. */
function buildFerretDb(say: (line: string) => void): string | undefined {
  const folder = buildGoPrograms(
    { folder: "ferretdb", sources: ["go.mod", "go.sum", "main.go"], programs: { ferretdb: "." } },
    () => say("Building FerretDB for the tests on MongoDB, once: this takes a minute or two."),
  );
  return folder && join(folder, "ferretdb");
}

async function startFerretDb(
  program: string,
  dataDir: string,
  { host, port }: MongoAddress = { host: "127.0.0.1", port: 0 },
): Promise<MongoServer> {
  // FerretDB ends when its standard input does, and so never outlives this process.
  const child = spawn(program, ["-data-dir", dataDir, "-listen", `${host}:${port}`], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout }))
    return { uri: line, kill: () => killServer(child) };
  throw new Error("FerretDB ended before it was ready");
}

const mongodPorts = new Map<string, number>();

async function startMongod(dataDir: string, address?: MongoAddress): Promise<MongoServer> {
  // A replica set keeps the ports of its members, so a folder keeps its port.
  const port = address?.port ?? mongodPorts.get(dataDir) ?? (await freePort());
  mongodPorts.set(dataDir, port);
  const uri = `mongodb://127.0.0.1:${port}/?replicaSet=keyrun`;
  const bound = ["127.0.0.1", ...(address ? [address.host] : [])].join();
  const child = spawn(
    "mongod",
    ["--replSet", "keyrun", "--bind_ip", bound, "--port", String(port), "--dbpath", dataDir],
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
  return { uri, kill: () => killServer(child) };
}

/** By SIGKILL. Resolves once the process has ended, also where it had before. */
export function killServer(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", () => resolve());
    child.kill("SIGKILL");
  });
}
