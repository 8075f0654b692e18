import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Health } from "#gen/grpc/health/v1/health_pb.ts";
import type { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import type { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import type { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import type { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import type { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import type { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import type { Config } from "../settings/config.ts";
import { readHostAndPort, writeHostAndPort } from "../settings/host.ts";
import { type Environment, readSettings } from "../settings/read-settings.ts";
import { CommandFailure } from "./command-failure.ts";
import { openClient, type UnaryCalls } from "./rpc-client.ts";

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

export interface Peer {
  /** `host:port`. */
  readonly address: string;
  /** Absent for calls that need no credential. */
  readonly serviceToken?: string;
  readonly tls: Config["grpcTls"];
}

/** The connection that the settings name. Throws a CommandFailure if they don't name one. */
export async function connect(env: Environment, readFile: (path: string) => string): Promise<Connection> {
  const settings = readSettings(env, readFile);
  if ("problems" in settings) throw new CommandFailure(settings.problems.join("\n"));
  const config = settings.ok;
  const address = readAddress(config, env);
  return openConnection({ address, serviceToken: readServiceToken(config, env), tls: config.grpcTls });
}

/** Opens a connection and sends no request yet. Throws if a TLS file is of no use. */
export async function openConnection({ address, serviceToken, tls }: Peer): Promise<Connection> {
  const client = openClient({ address, serviceToken, tls: tls && (await readTls(tls)) });
  return {
    address,
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
 * The address of the server's internal listener: from the settings, or from the file that the
 * running server wrote. Replaces a wildcard by loopback. Throws if there is no such file.
 */
export function readAddress(config: Config, env: Environment): string {
  const isSet = env.KEYRUN_GRPC_PORT !== undefined && config.grpcPort !== 0;
  const { host, port } = isSet
    ? { host: config.grpcHost, port: config.grpcPort }
    : readHostAndPort(readAddressFile(config.dataDir, env));
  return writeHostAndPort({ host: { "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host, port });
}

/** The service token of the settings, else of the data folder. Throws if there is none. */
export function readServiceToken(config: Config, env: Environment): string {
  if (config.serviceToken !== undefined) return config.serviceToken;
  const token = readDataFile(config.dataDir, "service-token", env);
  if (token !== undefined && token !== "") return token;
  throw new CommandFailure(
    `There is no service token in the data folder ${resolve(config.dataDir)}: start Keyrun there with \`npm start\`, or set KEYRUN_SERVICE_TOKEN.`,
  );
}

function readAddressFile(dataDir: string, env: Environment): string {
  const text = readDataFile(dataDir, "grpc-address", env);
  if (text === undefined) {
    throw new CommandFailure(
      `There is no file grpc-address, which a running Keyrun writes, in the data folder ${resolve(dataDir)}: start it with \`npm start\`, or set KEYRUN_DATA_DIR or KEYRUN_GRPC_PORT to those of the running server.`,
    );
  }
  if (/^[^\s/@]+:\d{1,5}$/.test(text)) return text;
  throw new CommandFailure(
    `The file ${resolve(dataDir, "grpc-address")} is damaged: restart Keyrun, which writes it.`,
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
