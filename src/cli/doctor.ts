/** `doctor`: the checks in their order. `start-checks.ts` has those that a start makes, too. */

import { isNewEnough, leastNode } from "../../bin/needed-node.mjs";
import { innermostCause } from "../base/innermost-cause.ts";
import { Refusal } from "../refusal/refusal.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { type Config, isEmbedded } from "../settings/config.ts";
import { type Environment, readSettings } from "../settings/read-settings.ts";
import type { StoreInspection } from "../store/stores.ts";
import { startCommand } from "./called.ts";
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

/** Each check of what the settings name; what it needs of them is in `needs`. */
async function* findings(world: CliWorld): AsyncGenerator<Finding> {
  const { env, nodeVersion, readFile, storeMsMax } = world;
  yield await find("node", () => checkNode(nodeVersion));
  const settings = readSettings(env, readFile);
  const isWell = "ok" in settings;
  if (isWell) yield { name: "settings", ok: true, message: "all are valid" };
  else for (const message of settings.problems) yield { name: "settings", ok: false, message };
  const config = isWell ? settings.ok : settings.rest.config;
  const mayCheck = (name: keyof typeof needs) =>
    isWell || needs[name].every((setting) => !settings.rest.unread.has(setting));
  const { startChecks } = await import("./start-checks.ts");
  if (mayCheck("data folder")) yield await find("data folder", () => startChecks.dataFolder(config));
  const { grpcTls, sharedLimit, oidc } = config;
  if (grpcTls) yield await find("tls", () => startChecks.tls(grpcTls));
  let inspection: StoreInspection | undefined;
  if (mayCheck("store")) {
    const store = await findStore(config, storeMsMax);
    inspection = store.inspection;
    yield store.finding;
  }
  const hasFleet = sharedLimit !== undefined || (inspection?.instances.length ?? 0) > 0;
  const seen = inspection;
  if (seen && hasFleet && mayCheck("fleet")) {
    yield await find("fleet", () => startChecks.fleet(config, seen));
  }
  if (mayCheck("secret")) yield await find("secret", () => startChecks.secrets(config, inspection));
  if (sharedLimit) yield await find("redis", () => startChecks.redis(sharedLimit, inspection));
  if (oidc) yield await find("issuer", () => startChecks.issuer(oidc));
  if (mayCheck("token file")) yield await find("token file", () => startChecks.token(config));
  if (mayCheck("server"))
    yield* serverFindings(config, env, inspection?.isServed ?? false, mayCheck("ports"));
}

/** The settings without which a check would check something else than the operator means. */
const needs = {
  "data folder": ["KEYRUN_DATA_DIR", "KEYRUN_MONGODB_URI", "KEYRUN_SERVICE_TOKEN"],
  store: ["KEYRUN_DATA_DIR", "KEYRUN_MONGODB_URI"],
  fleet: ["KEYRUN_SECRET", "KEYRUN_SERVICE_TOKEN", "KEYRUN_KEY_PREFIX", "KEYRUN_REDIS_URL"],
  secret: ["KEYRUN_DATA_DIR", "KEYRUN_SECRET"],
  "token file": ["KEYRUN_DATA_DIR", "KEYRUN_SERVICE_TOKEN"],
  server: ["KEYRUN_DATA_DIR", "KEYRUN_GRPC_HOST", "KEYRUN_GRPC_PORT", "KEYRUN_SERVICE_TOKEN"],
  ports: ["KEYRUN_HOST", "KEYRUN_PORT"],
} as const;

async function findStore(config: Config, msMax: number | undefined) {
  const { startChecks } = await import("./start-checks.ts");
  let inspection: StoreInspection | undefined;
  const found = await find(isEmbedded(config) ? "store" : "mongodb", async () => {
    inspection = await startChecks.store(config, msMax);
    return [inspection.words, inspection.warning ?? []].flat().join(": ");
  });
  const seen = inspection;
  const finding: Finding = seen?.warning === undefined ? found : { ...found, warning: true };
  return { finding, inspection: seen };
}

/**
 * What a server that runs says, or whether the ports of one to start are free. A server that does
 * not run is no fault: nothing else may serve the store then. One that answers does run, whatever
 * is known of the store.
 */
async function* serverFindings(
  config: Config,
  env: Environment,
  isServed: boolean,
  mayCheckPorts: boolean,
): AsyncGenerator<Finding> {
  let isRunning = false;
  const answered = () => {
    isRunning = true;
  };
  const server = await find("server", () => checkServer(config, env, answered));
  if (!server.ok && !isRunning && !isServed) {
    yield { name: "server", ok: true, message: `it does not run: start it with \`${startCommand}\`` };
    const { startChecks } = await import("./start-checks.ts");
    if (mayCheckPorts) yield await find("ports", () => startChecks.ports(config));
    return;
  }
  const isHeld = !server.ok && isServed;
  yield isHeld ? { ...server, message: `${server.message} ${servedWords}` } : server;
  // Only a running server can say whether it accepts the token.
  if (server.ok) yield await find("token", () => checkToken(config, env));
}

const servedWords = "A process holds the store, so no other can start on it.";

/** A check that fails in any way is a finding, so that the others are made, too. */
async function find(name: string, check: Check): Promise<Finding> {
  try {
    return { name, ok: true, message: await check() };
  } catch (error) {
    const message = isFinding(error)
      ? error.message
      : `the check failed, and does not know what to do: ${innermostCause(error)}.`;
    return { name, ok: false, message };
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
