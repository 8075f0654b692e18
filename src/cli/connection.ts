/** The way to the server's internal listener: where it is, with which credential, and a client. */

import { once } from "node:events";
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { resolve } from "node:path";
import type { SecureContextOptions } from "node:tls";
import type { DescMethodUnary, DescService, MessageJsonType } from "@bufbuild/protobuf";
import type { Health } from "#gen/grpc/health/v1/health_pb.ts";
import type { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import type { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import type { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import type { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import type { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import type { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { clientHeader, type DeclaredClient } from "../auth/principal.ts";
import type { Config } from "../settings/config.ts";
import { type HostAndPort, readHostAndPort, writeHostAndPort } from "../settings/host.ts";
import { type Environment, readSettings } from "../settings/read-settings.ts";
import { startCommand } from "./called.ts";
import { CallRefused, CallUnanswered, CommandFailure, type ErrorAnswer, isCallError } from "./failures.ts";

/** A client of the internal listener. `failureFrom` puts the errors of its calls into words. */
export interface Connection {
  /** `host:port`. */
  readonly address: string;
  readonly keys: UnaryCalls<typeof KeyService>;
  readonly teams: UnaryCalls<typeof TeamService>;
  readonly apps: UnaryCalls<typeof AppService>;
  readonly sessions: UnaryCalls<typeof SessionService>;
  readonly serviceTokens: UnaryCalls<typeof ServiceTokenService>;
  readonly audit: UnaryCalls<typeof AuditService>;
  readonly health: UnaryCalls<typeof Health>;
  close(): void;
}

/** The connection that the settings name. Throws a CommandFailure if they don't name one. */
export async function connect(world: SettingsWorld): Promise<Connection> {
  const config = readConfig(world);
  const address = readAddress(config, world.env);
  return openConnection({ address, serviceToken: readServiceToken(config, world.env), tls: config.grpcTls });
}

/** What settings are read from. */
export interface SettingsWorld {
  readonly env: Environment;
  readFile(path: string): string;
}

/** The settings of this command. Throws a CommandFailure with all that is wrong with them. */
export function readConfig({ env, readFile }: SettingsWorld): Config {
  const settings = readSettings(env, readFile);
  if ("problems" in settings) throw new CommandFailure(settings.problems.join("\n"));
  return settings.ok;
}

/**
 * The address of the server's internal listener: from the settings, or from the file that the
 * running server wrote. Replaces a wildcard by loopback. Throws if there is no such file.
 */
export function readAddress(config: Config, env: Environment): string {
  const isSet = env.KEYRUN_GRPC_PORT !== undefined && config.grpcPort !== 0;
  const { host, port } = isSet
    ? { host: config.grpcHost, port: config.grpcPort }
    : readHostAndPort(readAddressFile(config.dataDir, env));
  return reachableAt({ host, port });
}

/** Where a listener is reached that binds to this address: a wildcard takes IPv4's loopback. */
export function reachableAt({ host, port }: HostAndPort): string {
  return writeHostAndPort({ host: host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host, port });
}

function readAddressFile(dataDir: string, env: Environment): string {
  const text = readDataFile(dataDir, "grpc-address", env);
  if (text === undefined) {
    throw new CommandFailure(
      `No running Keyrun has written its address into the data folder ${resolve(dataDir)}: start Keyrun with \`${startCommand}\`, or set KEYRUN_DATA_DIR or KEYRUN_GRPC_PORT to those of the running server.`,
    );
  }
  if (/^[^\s/@]+:\d{1,5}$/.test(text)) return text;
  throw new CommandFailure(
    `The file ${resolve(dataDir, "grpc-address")} is damaged: restart Keyrun, which writes it.`,
  );
}

/** The service token of the settings, else of the data folder. Throws if there is none. */
export function readServiceToken(config: Config, env: Environment): string {
  if (config.serviceToken !== undefined) return config.serviceToken;
  const token = readDataFile(config.dataDir, "service-token", env);
  if (token !== undefined && token !== "") return token;
  throw new CommandFailure(
    `There is no service token in the data folder ${resolve(config.dataDir)}: start Keyrun there with \`${startCommand}\`, or set KEYRUN_SERVICE_TOKEN.`,
  );
}

/**
 * The file's text, trimmed; undefined if there is no such file. Where no setting names the folder,
 * it is `data` in the folder that the command runs in. That may be somebody else's: a file there
 * could send the service token to an address of theirs, or be a link to a secret of this user.
 */
function readDataFile(dataDir: string, name: string, env: Environment): string | undefined {
  const path = resolve(dataDir, name);
  try {
    return env.KEYRUN_DATA_DIR === undefined ? readOwnFile(path) : readFileSync(path, "utf8").trim();
  } catch (cause) {
    if (cause instanceof CommandFailure) throw cause;
    const why = cause instanceof Error && "code" in cause ? cause.code : "unknown";
    // A folder in the file's place is what the server could not write either.
    if (why === "ENOENT" || why === "EISDIR") return undefined;
    if (why === "ELOOP") throw new CommandFailure(notOwn(path), { cause });
    throw new CommandFailure(`The file ${path} can't be read: run this as the user who runs Keyrun.`, {
      cause,
    });
  }
}

/** Reads a plain file of this user, and no link. */
function readOwnFile(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { uid, size } = fstatSync(file);
    if (uid !== process.geteuid?.() || size > dataFileBytesMax) throw new CommandFailure(notOwn(path));
    return readFileSync(file, "utf8").trim();
  } finally {
    closeSync(file);
  }
}

const dataFileBytesMax = 4_096;

function notOwn(path: string): string {
  return `The file ${path} is not one of this user's Keyrun: run this in the clone, as the user who runs Keyrun, or set KEYRUN_DATA_DIR to the server's data folder if you trust it.`;
}

interface Peer {
  /** `host:port`. */
  readonly address: string;
  /** Absent for calls that need no credential. */
  readonly serviceToken?: string;
  readonly tls: Config["grpcTls"];
}

/** Opens a connection and sends no request yet. Throws if a TLS file is of no use. */
export async function openConnection(peer: Peer): Promise<Connection> {
  const client = openClient(peer, peer.tls && (await readTls(peer.tls)));
  return {
    address: peer.address,
    keys: client.calls<typeof KeyService>("keyrun.v1.KeyService"),
    teams: client.calls<typeof TeamService>("keyrun.v1.TeamService"),
    apps: client.calls<typeof AppService>("keyrun.v1.AppService"),
    sessions: client.calls<typeof SessionService>("keyrun.v1.SessionService"),
    serviceTokens: client.calls<typeof ServiceTokenService>("keyrun.v1.ServiceTokenService"),
    audit: client.calls<typeof AuditService>("keyrun.v1.AuditService"),
    health: client.calls<typeof Health>("grpc.health.v1.Health"),
    close: () => client.close(),
  };
}

/**
 * The command uses the listener's certificate as its client certificate. This works if the client
 * authority signed that certificate too, as is usual in a private network.
 */
async function readTls(files: NonNullable<Config["grpcTls"]>) {
  const { readTlsFiles } = await import("../settings/tls-files.ts");
  const read = readTlsFiles(files);
  if ("problems" in read) throw new CommandFailure(read.problems.join("\n"));
  const { cert, key, clientCa } = read.ok;
  return { cert, key, ca: clientCa };
}

/** The unary RPCs of a service, as functions of JSON messages. */
type UnaryCalls<Service extends DescService> = {
  readonly [Name in keyof Service["method"] as Service["method"][Name] extends DescMethodUnary
    ? Name
    : never]: (
    request: MessageJsonType<Service["method"][Name]["input"]>,
    msMax?: number,
  ) => Promise<MessageJsonType<Service["method"][Name]["output"]>>;
};

/** The deadline of a call that names no other. */
export const rpcMsMax = 10_000;
const answerBytesMax = 16 * 1024 * 1024;
const connectionsMax = 4;

/**
 * A client that speaks Connect's JSON over HTTP/1.1. Commands start twice as fast with it as with
 * Connect's own client: that one loads Protobuf, an HTTP/2 client and a server. Sends no request
 * yet. A call rejects with CallRefused or CallUnanswered.
 */
function openClient({ address, serviceToken }: Peer, tls: SecureContextOptions | undefined) {
  // `import` of this module would load all that it exports, fetch and WebSocket among them.
  const { Agent, request } = process.getBuiltinModule(tls === undefined ? "node:http" : "node:https");
  const agent = new Agent({ keepAlive: true, maxSockets: connectionsMax });
  const origin = `${tls === undefined ? "http" : "https"}://${address}`;
  const headers = {
    "content-type": "application/json",
    "connect-protocol-version": "1",
    // For the names of actors in records.
    [clientHeader]: "command-line" satisfies DeclaredClient,
    ...(serviceToken !== undefined && { authorization: `Bearer ${serviceToken}` }),
  };

  async function call(path: string, message: unknown, msMax = rpcMsMax): Promise<unknown> {
    const signal = AbortSignal.timeout(msMax);
    const timed = { ...headers, "connect-timeout-ms": String(msMax) };
    try {
      const sent = request(`${origin}/${path}`, { ...tls, agent, method: "POST", headers: timed, signal });
      sent.end(JSON.stringify(message));
      const [response]: IncomingMessage[] = await once(sent, "response");
      // The error of a connection that breaks from here on reaches the reader of the response.
      sent.on("error", () => {});
      return await readAnswer(response);
    } catch (error) {
      if (isCallError(error)) throw error;
      throw new CallUnanswered(signal.aborted ? "LATE" : codeOf(error), error);
    }
  }

  return {
    /** The calls of the service with this name. */
    calls<Service extends DescService>(name: string): UnaryCalls<Service> {
      // The type comes from the same proto as the server, which answers with this JSON or refuses.
      return new Proxy({} as UnaryCalls<Service>, {
        get: (_, method) => (message: unknown, msMax?: number) =>
          call(`${name}/${rpcName(String(method))}`, message, msMax),
      });
    },
    close: () => agent.destroy(),
  };
}

function rpcName(method: string): string {
  return method.charAt(0).toUpperCase() + method.slice(1);
}

async function readAnswer(response: IncomingMessage | undefined): Promise<unknown> {
  if (!/^application\/json\b/.test(response?.headers["content-type"] ?? ""))
    throw new CallUnanswered("STRANGE");
  const answer = parseObject(await readText(response ?? []));
  if (response?.statusCode === 200) return answer;
  if (typeof answer.code !== "string") throw new CallUnanswered("STRANGE");
  // Connect's form of an error. What an answer lacks of it counts as absent.
  throw new CallRefused(answer as unknown as ErrorAnswer);
}

async function readText(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > answerBytesMax) throw new CallUnanswered("STRANGE");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return { ...value };
  } catch {
    // Refused below.
  }
  throw new CallUnanswered("STRANGE");
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
