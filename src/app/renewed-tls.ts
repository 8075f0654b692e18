/**
 * The files of the internal listener's TLS while Keyrun runs: a renewed certificate is taken into
 * use without a restart.
 */

import { X509Certificate } from "node:crypto";
import { statSync } from "node:fs";
import { createRepeatedWork } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { Log } from "../log/log.ts";
import type { Config } from "../settings/config.ts";
import { readTlsFiles, type TlsFiles } from "../settings/tls-files.ts";
import { loadTlsFiles } from "./service-secrets.ts";

type Paths = NonNullable<Config["grpcTls"]>;

export interface RenewedTls {
  /** The newest files that are of use together. */
  current(): TlsFiles;
  /** Calls `take` with each newer ones. */
  onRenewed(take: (files: TlsFiles) => void): void;
  /** Looks at the files again and again, until `stop`. */
  start(): void;
  stop(): Promise<void>;
}

/**
 * Reads the files, and reads them again when one has changed: by their facts, as links and names
 * change where certificates are mounted, which no system tells alike. Files that are of no use
 * together, such as of a pair that is half written, change nothing, and the log says so. Throws
 * StartRefused, naming the settings at fault, where the first ones are of no use.
 */
export function openTls(
  paths: Paths,
  { log, everyMs = bounds.tlsCheckMs }: { readonly log: Log; readonly everyMs?: number },
): RenewedTls {
  let known = factsOf(paths);
  let current = loadTlsFiles(paths);
  const takers: ((files: TlsFiles) => void)[] = [];

  function check(): void {
    const facts = factsOf(paths);
    if (facts === known) return;
    // Before they are read: what changes meanwhile is read the next time.
    known = facts;
    const read = readTlsFiles(paths);
    if ("problems" in read) {
      const { problems } = read;
      log.error({ problems }, "the changed files of TLS are of no use: the certificate before stays");
      return;
    }
    const { cert, key, clientCa } = read.ok;
    if (cert === current.cert && key === current.key && clientCa === current.clientCa) return;
    current = read.ok;
    for (const take of takers) take(current);
    log.info({ expires: new X509Certificate(cert).validToDate }, "the certificate of TLS was renewed");
  }
  const checking = createRepeatedWork(async () => check(), everyMs);
  return {
    current: () => current,
    onRenewed: (take) => void takers.push(take),
    start: checking.start,
    stop: checking.stop,
  };
}

/** What differs after a file was written, or another one has its name. */
function factsOf({ certFile, keyFile, clientCaFile }: Paths): string {
  const facts = [certFile, keyFile, clientCaFile].map((path) => {
    const stats = statSync(path, { throwIfNoEntry: false });
    return stats && [stats.dev, stats.ino, stats.size, stats.mtimeMs];
  });
  return JSON.stringify(facts);
}
