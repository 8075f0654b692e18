// `doctor`: the checks in their order. `start-checks.ts` has those that a start makes, too.

import { isNewEnough, leastNode } from "../../bin/needed-node.mjs";
import { startCommand } from "../base/program.ts";
import { Refusal } from "../refusal/refusal.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { type Config, isEmbedded } from "../settings/config.ts";
import { type Environment, readSettings } from "../settings/read-settings.ts";
import type { StoreInspection } from "../store/stores.ts";
import { type Connection, openConnection, readAddress, readServiceToken } from "./connection.ts";
import { CommandFailure, isCallError } from "./failures.ts";
import { failureFrom } from "./refusal-words.ts";
import type { CliWorld, JsonOption, Terminal } from "./terminal.ts";

/** Returns a sentence on what is well, or throws a CommandFailure that says how to fix it. */
type Check = () => string | Promise<string>;

/** What a check found, as `--json` prints it. */
interface Finding {
  readonly name: string;
  readonly ok: boolean;
  /** It works, and should not stay as it is. */
  readonly warning?: true;
  readonly message: string;
}

/**
 * Checks what a server and its commands need. Prints a line after each check, or with `json` one
 * object after the last. The result is the exit status: 0 if all is well, else 1.
 */
export async function runDoctor(world: CliWorld, terminal: Terminal, { json }: JsonOption): Promise<number> {
  const checks: Finding[] = [];
  for await (const finding of findings(world)) {
    checks.push(finding);
    const mark = finding.warning ? "warn " : finding.ok ? "ok   " : "wrong";
    if (!json) terminal.print(`${mark}  ${finding.name}: ${finding.message}`);
  }
  if (json) terminal.print(JSON.stringify({ checks }, null, 2));
  return checks.every(({ ok }) => ok) ? 0 : 1;
}

async function* findings(world: CliWorld): AsyncGenerator<Finding> {
  const { env, nodeVersion, readFile, storeMsMax } = world;
  yield await find("node", () => checkNode(nodeVersion));
  const settings = readSettings(env, readFile);
  if ("problems" in settings) {
    for (const message of settings.problems) yield { name: "settings", ok: false, message };
    return;
  }
  const config = settings.ok;
  yield await find("settings", () => "all are valid");
  const { startChecks } = await import("./start-checks.ts");
  yield await find("data folder", () => startChecks.dataFolder(config));
  const { grpcTls } = config;
  if (grpcTls) yield await find("tls", () => startChecks.tls(grpcTls));
  let store: StoreInspection | undefined;
  const found = await find(isEmbedded(config) ? "store" : "mongodb", async () => {
    store = await startChecks.store(config, storeMsMax);
    return [store.words, store.warning ?? []].flat().join(": ");
  });
  const inspection = store;
  yield inspection?.warning === undefined ? found : { ...found, warning: true };
  if (inspection) yield* storeFindings(config, inspection);
  const { sharedLimit } = config;
  if (sharedLimit) yield await find("redis", () => startChecks.redis(sharedLimit, store));
  yield await find("token file", () => startChecks.token(config));
  yield* serverFindings(config, env, store?.isServed ?? false);
}

/** What else follows from what the store holds. */
async function* storeFindings(config: Config, inspection: StoreInspection): AsyncGenerator<Finding> {
  const { startChecks } = await import("./start-checks.ts");
  if (config.sharedLimit || inspection.instances.length > 0) {
    yield await find("fleet", () => startChecks.fleet(config, inspection));
  }
  yield await find("secret", () => startChecks.secrets(config, inspection));
}

/**
 * What a server that runs says, or whether the ports of one to start are free. A server that does
 * not run is no fault: nothing else may serve the store then. One that answers does run, whatever
 * is known of the store.
 */
async function* serverFindings(config: Config, env: Environment, isServed: boolean): AsyncGenerator<Finding> {
  let isRunning = false;
  const answered = () => {
    isRunning = true;
  };
  const server = await find("server", () => checkServer(config, env, answered));
  if (!server.ok && !isRunning && !isServed) {
    yield { name: "server", ok: true, message: `it does not run: start it with \`${startCommand}\`` };
    const { startChecks } = await import("./start-checks.ts");
    yield await find("ports", () => startChecks.ports(config));
    return;
  }
  const isHeld = !server.ok && isServed;
  yield isHeld ? { ...server, message: `${server.message} ${servedWords}` } : server;
  // Only a running server can say whether it accepts the token.
  if (server.ok) yield await find("token", () => checkToken(config, env));
}

const servedWords = "A process holds the store, so no other can start on it.";

async function find(name: string, check: Check): Promise<Finding> {
  try {
    return { name, ok: true, message: await check() };
  } catch (error) {
    if (!isFinding(error)) throw error;
    return { name, ok: false, message: error.message };
  }
}

/** Whether the words of the error are for the operator. Other errors are faults of Keyrun. */
function isFinding(error: unknown): error is Error {
  return [CommandFailure, StartRefused, Refusal].some((kind) => error instanceof kind);
}

function checkNode(version: string): string {
  if (isNewEnough(version)) return version;
  throw new CommandFailure(`this is Node ${version}: install Node ${leastNode} or newer.`);
}

function checkServer(config: Config, env: Environment, answered: () => void): Promise<string> {
  return ask({ address: readAddress(config, env), tls: config.grpcTls }, async ({ health, address }) => {
    const { status } = await health.check({});
    answered();
    if (status === "SERVING") return `it serves at ${address}`;
    throw new CommandFailure(
      `it runs at ${address} and does not serve now: it has lost its store, or is starting or stopping. See its log.`,
    );
  });
}

function checkToken(config: Config, env: Environment): Promise<string> {
  const peer = {
    address: readAddress(config, env),
    serviceToken: readServiceToken(config, env),
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
