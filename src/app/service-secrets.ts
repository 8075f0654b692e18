import type { Config } from "../config.ts";
import { StartRefused } from "../error.ts";
import { createServiceSecrets, type ServiceSecrets } from "../keys/service-secrets.ts";
import type { createSecretFiles } from "../secret-files.ts";
import type { Stores } from "../store/stores.ts";

/**
 * The service's secrets: as set, as the data folder holds them, or made there. A store whose keys name a secret that
 * is not there would refuse every one of them: the start is refused instead, and then nothing is made, as a wrong
 * `secret` would take the right one's place in the next backup.
 */
export async function loadServiceSecrets(
  config: Config,
  files: ReturnType<typeof createSecretFiles>,
  stores: Stores,
): Promise<ServiceSecrets> {
  const found = config.secrets ?? (await files.findSecrets());
  const secrets = found && createServiceSecrets(found);
  const missing = (await stores.keys.secretVersions()).filter(
    (version) => !secrets?.versions.includes(version),
  );
  if (missing.length === 0) return secrets ?? createServiceSecrets([await files.makeSecret()]);
  throw new StartRefused(
    `The store holds keys made with a service secret that is not there (version ${missing.join(", ")}). ` +
      "Add it to KEYRUN_SECRET after the newest one, or restore the file `secret` of the data folder.",
  );
}
