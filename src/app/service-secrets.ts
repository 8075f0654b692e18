/** The secrets and keys that a start reads from files, and what it refuses of them. */

import { bounds } from "../bounds.ts";
import { mayHavePrefix } from "../keys/key-value.ts";
import { createServiceSecrets, type ServiceSecrets } from "../keys/service-secrets.ts";
import type { Log } from "../log/log.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import type { Config } from "../settings/config.ts";
import { type createSecretFiles, secretPath } from "../settings/data-folder.ts";
import { readTlsFiles, type TlsFiles } from "../settings/tls-files.ts";
import type { Stores } from "../store/stores.ts";

/**
 * Returns the service's secrets: those in the settings, those in the data folder, or a new one that
 * is written there. If the store has keys or service tokens made with a secret that is missing, all
 * of them would be refused, so the start is refused. No secret is made then, because it would
 * replace the right one in the next backup of the data folder. Older secrets that no key needs are
 * logged.
 */
export async function loadServiceSecrets(
  config: Config,
  files: ReturnType<typeof createSecretFiles>,
  { stores, log }: { stores: Stores; log: Log },
): Promise<ServiceSecrets> {
  const needed = [...(await stores.keys.secretVersions()), ...(await stores.serviceTokens.secretVersions())];
  const secrets = await findServiceSecrets(config, files, needed);
  const older = secrets?.versions.slice(1) ?? [];
  const versions = older.filter((version) => !needed.includes(version));
  if (versions.length > 0) log.info({ versions }, "no key needs these older secrets any more: remove them");
  return secrets ?? createServiceSecrets([await files.makeSecret()]);
}

/**
 * Returns the secrets in the settings, or those in the data folder; undefined if there are none and
 * no key needs one. Throws StartRefused, naming the versions, if one that a key needs is missing.
 */
export async function findServiceSecrets(
  config: Pick<Config, "secrets" | "dataDir">,
  files: Pick<ReturnType<typeof createSecretFiles>, "findSecrets">,
  neededVersions: readonly string[],
): Promise<ServiceSecrets | undefined> {
  const found = config.secrets ?? (await files.findSecrets());
  const secrets = found && createServiceSecrets(found);
  const missing = [...new Set(neededVersions)].filter((version) => !secrets?.versions.includes(version));
  if (missing.length === 0) return secrets;
  const place =
    config.secrets === undefined
      ? `the file ${secretPath(config.dataDir)}`
      : "what KEYRUN_SECRET_FILE or KEYRUN_SECRET holds";
  throw new StartRefused(
    `The store holds service tokens or keys made with a service secret that is not there (version ${missing.join(", ")}). ` +
      `Add it, after the others, to ${place}, or restore that from a backup.`,
  );
}

/** The files of the internal listener's TLS. Throws StartRefused, naming the settings at fault. */
export function loadTlsFiles(files: NonNullable<Config["grpcTls"]>): TlsFiles {
  const read = readTlsFiles(files);
  if ("problems" in read) throw new StartRefused(read.problems.join(" "));
  return read.ok;
}

/**
 * Warns, once, if one of the first teams has a newest active key with another prefix, because all
 * such keys are refused. It is only a quick check: older keys and later teams are not checked.
 */
export async function warnOfOtherPrefix(
  { teams, keys }: Pick<Stores, "teams" | "keys">,
  { keyPrefix, log }: { keyPrefix: string; log: Log },
): Promise<void> {
  try {
    for (const { id: teamId } of await teams.list({ limit: bounds.keyPrefixTeamsMax })) {
      const [newest] = await keys.list({ teamId, limit: 1, includeRevoked: false });
      if (newest === undefined || mayHavePrefix(newest.redactedValue, keyPrefix)) continue;
      const facts = { teamId, keyId: newest.id, keyPrefix };
      return log.warn(
        facts,
        "keys were made with another KEYRUN_KEY_PREFIX: these keys are refused until that prefix is set again",
      );
    }
  } catch (cause) {
    // If the store can't be read, the requests that need it report that. This check must not stop
    // the start.
    log.debug({ cause }, "the prefix of the store's keys could not be checked");
  }
}
