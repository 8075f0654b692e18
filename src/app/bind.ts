/** Binds the listeners, and tells other processes of this machine where the internal one is. */

import { rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import type { Log } from "../log/log.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import type { Listener } from "../server/listener.ts";
import type { Config } from "../settings/config.ts";
import { writePrivateFile } from "../settings/data-folder.ts";
import { type HostAndPort, listenOptions, writeHostAndPort } from "../settings/host.ts";

/** The settings of each listener's address. */
export const addressSettings = {
  public: { host: "KEYRUN_HOST", port: "KEYRUN_PORT" },
  internal: { host: "KEYRUN_GRPC_HOST", port: "KEYRUN_GRPC_PORT" },
} as const;

/** Throws StartRefused, as `bind` does, where one of the two addresses can't be bound now. */
export async function requireFreePorts({ host, port, grpcHost, grpcPort }: Config): Promise<void> {
  await bind(briefListener, { host, port }, addressSettings.public);
  await bind(briefListener, { host: grpcHost, port: grpcPort }, addressSettings.internal);
}

/** Binds an address and leaves it at once. */
const briefListener = {
  async listen(at: HostAndPort): Promise<HostAndPort> {
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(listenOptions(at), resolve);
    });
    await new Promise((closed) => server.close(closed));
    return at;
  },
};

/** The names of the settings that an address comes from. */
interface AddressSettings {
  readonly host: string;
  readonly port: string;
}

/**
 * Binds the listener and returns its address. If that fails, throws StartRefused, which names the
 * setting at fault.
 */
export async function bind(
  listener: Pick<Listener, "listen">,
  at: HostAndPort,
  settings: AddressSettings,
): Promise<HostAndPort> {
  try {
    return await listener.listen(at);
  } catch (cause) {
    const why = cause instanceof Error && "code" in cause ? String(cause.code) : "unknown";
    const words = why === "EADDRINUSE" ? "is already in use" : `can't be bound (${why})`;
    const port = portAdvice.get(why);
    const advice =
      port === undefined
        ? `set ${settings.host} to an address of this machine, such as 127.0.0.1`
        : `set ${settings.port} to ${port}, or to 0 for any`;
    throw new StartRefused(`${writeHostAndPort(at)} ${words}: ${advice}.`, { cause });
  }
}

/**
 * The errors that a port causes. All others are caused by the host: it is unknown, belongs to
 * another machine, or has a kind of address that this machine does not have.
 */
const portAdvice: ReadonlyMap<string, string> = new Map([
  ["EADDRINUSE", "a free port"],
  ["EACCES", "a port that this user may bind"],
]);

/**
 * Writes the file that tells the commands where the internal listener is, and returns the function
 * that removes it. Never throws: a server is more than its commands, which have a setting for this.
 */
export async function writeAddressFile(
  dataDir: string,
  internalAddress: HostAndPort,
  log: Log,
): Promise<() => Promise<void>> {
  const path = join(dataDir, "grpc-address");
  const address = writeHostAndPort(internalAddress);
  const remove = () => rm(path, { force: true }).catch(() => {});
  try {
    await writePrivateFile(path, `${address}\n`);
  } catch (err) {
    const { port } = internalAddress;
    log.warn({ err, address }, `grpc-address could not be written: commands need KEYRUN_GRPC_PORT=${port}`);
    // A process that was killed may have left a file with its address.
    await remove();
  }
  return remove;
}
