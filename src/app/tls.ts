import { StartRefused } from "../refusal/start-refused.ts";
import type { Config } from "../settings/config.ts";
import { readTlsFiles, type TlsFiles } from "../settings/tls-files.ts";

/** The files of the internal listener's TLS. Throws StartRefused, naming the settings at fault. */
export function loadTlsFiles(files: NonNullable<Config["grpcTls"]>): TlsFiles {
  const read = readTlsFiles(files);
  if ("problems" in read) throw new StartRefused(read.problems.join(" "));
  return read.ok;
}
