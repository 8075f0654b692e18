import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";
import { isNewEnough, leastNode } from "../../bin/needed-node.mjs";
import type { Config } from "../settings/config.ts";
import { type Environment, readSettings } from "../settings/read-settings.ts";
import { CommandFailure } from "./command-failure.ts";
import { type Connection, openConnection, readAddress, readServiceToken } from "./connection.ts";
import { isCallError } from "./rpc-client.ts";
import { failureFrom } from "./rpc-failure.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

interface DoctorWorld {
  readonly env: Environment;
  readonly nodeVersion: string;
  readFile(path: string): string;
}

/** Returns a sentence on what is well, or throws a CommandFailure that says how to fix it. */
type Check = () => string | Promise<string>;

/** What a check found, as `--json` prints it. */
interface Finding {
  readonly name: string;
  readonly ok: boolean;
  readonly message: string;
}

/**
 * Checks what a server and its commands need. Prints a line after each check, or with `json` one
 * object after the last. The result is the exit status: 0 if all is well, else 1.
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
  // Only a running server can say whether it accepts the token.
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
  if (isNewEnough(version)) return version;
  throw new CommandFailure(`this is Node ${version}: install Node ${leastNode} or newer.`);
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
    if (status === "SERVING") return `it serves at ${address}`;
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
  const connection = await openConnection(peer);
  try {
    return await question(connection);
  } catch (error) {
    throw isCallError(error) ? failureFrom(error, peer.address) : error;
  } finally {
    connection.close();
  }
}
