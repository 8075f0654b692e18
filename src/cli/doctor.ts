import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";
import { ConnectError } from "@connectrpc/connect";
import { HealthCheckResponse_ServingStatus as ServingStatus } from "#gen/grpc/health/v1/health_pb.ts";
import type { Config } from "../config.ts";
import { type Environment, readSettings } from "../settings.ts";
import { CommandFailure } from "./command-failure.ts";
import { type Connection, openConnection, readAddress, readServiceToken } from "./connection.ts";
import { failureFrom } from "./rpc-failure.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

interface DoctorWorld {
  readonly env: Environment;
  readonly nodeVersion: string;
  readFile(path: string): string;
}

/** A check answers with what is well, and throws a CommandFailure that says how to put right what is not. */
type Check = () => string | Promise<string>;

/** What a check found, as `--json` prints it. */
interface Finding {
  readonly name: string;
  readonly ok: boolean;
  readonly message: string;
}

/**
 * Checks what a server and its commands stand on: a line for each as it is found, or with `json` all of them in the
 * end as one object. Answers with 0 where all is well, else 1.
 */
export async function runDoctor(
  world: DoctorWorld,
  terminal: Terminal,
  { json }: JsonOption,
): Promise<number> {
  const checks: Finding[] = [];
  for await (const finding of findings(world)) {
    checks.push(finding);
    if (!json) terminal.print(`${finding.ok ? "ok   " : "wrong"}  ${finding.name}: ${finding.message}`);
  }
  if (json) terminal.print(JSON.stringify({ checks }, null, 2));
  return checks.every(({ ok }) => ok) ? 0 : 1;
}

async function* findings({ env, nodeVersion, readFile }: DoctorWorld): AsyncGenerator<Finding> {
  yield await find("node", () => checkNode(nodeVersion));
  const settings = readSettings(env, readFile);
  if ("problems" in settings) {
    for (const message of settings.problems) yield { name: "settings", ok: false, message };
    return;
  }
  const config = settings.ok;
  yield await find("settings", () => "all are valid");
  yield await find("data folder", () => checkDataDir(config.dataDir));
  const server = await find("server", () => checkServer(config, env));
  yield server;
  // Without a server, what its token is good for can't be said.
  if (server.ok) yield await find("token", () => checkToken(config, env));
}

async function find(name: string, check: Check): Promise<Finding> {
  try {
    return { name, ok: true, message: await check() };
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    return { name, ok: false, message: error.message };
  }
}

function checkNode(version: string): string {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 24 || (major === 24 && minor >= 15)) return version;
  throw new CommandFailure(`this is Node ${version}: install Node 24.15 or newer.`);
}

function checkDataDir(dataDir: string): string {
  try {
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const missing = cause instanceof Error && "code" in cause && cause.code === "ENOENT";
    const fix = missing ? "is not there: `npm start` makes it" : "can't be written: make it this user's own";
    throw new CommandFailure(`${dataDir} ${fix}, or set KEYRUN_DATA_DIR.`, { cause });
  }
  for (const name of ["secret", "service-token"]) {
    const mode = statSync(join(dataDir, name), { throwIfNoEntry: false })?.mode ?? 0;
    if ((mode & 0o077) !== 0) {
      throw new CommandFailure(`others can read ${join(dataDir, name)}: \`chmod 600\` it.`);
    }
  }
  return `${dataDir} can be read and written`;
}

function checkServer(config: Config, env: Environment): Promise<string> {
  return ask({ address: readAddress(config, env), tls: config.grpcTls }, async ({ health, address }) => {
    const { status } = await health.check({});
    if (status === ServingStatus.SERVING) return `it serves at ${address}`;
    throw new CommandFailure(
      `it runs at ${address} and does not serve: it is starting or stopping, see its log.`,
    );
  });
}

function checkToken(config: Config, env: Environment): Promise<string> {
  const peer = {
    address: readAddress(config, env),
    serviceToken: readServiceToken(config),
    tls: config.grpcTls,
  };
  return ask(peer, async ({ teams }) => {
    await teams.listTeams({ pageSize: 1 });
    return "the server takes it";
  });
}

async function ask(
  peer: Parameters<typeof openConnection>[0],
  question: (connection: Connection) => Promise<string>,
): Promise<string> {
  const connection = openConnection(peer);
  try {
    return await question(connection);
  } catch (error) {
    throw error instanceof ConnectError ? failureFrom(error, peer.address) : error;
  } finally {
    connection.close();
  }
}
