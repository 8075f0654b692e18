import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../log/log.ts";
import { type HostAndPort, writeHostAndPort } from "../settings/host.ts";
import { writePrivateFile } from "../settings/secret-files.ts";

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
