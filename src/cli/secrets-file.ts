import { createServiceSecrets } from "../keys/service-secrets.ts";
import { changeSecrets, type SecretsChange } from "../settings/change-secrets.ts";
import type { Config } from "../settings/config.ts";
import { secretPath } from "../settings/data-folder.ts";
import { type Environment, readSettings } from "../settings/read-settings.ts";
import type { inspectStore } from "../store/store-inspection.ts";
import { CommandFailure } from "./command-failure.ts";

export interface SecretsWorld {
  readonly env: Environment;
  readFile(path: string): string;
  /** By default `inspectStore`. */
  readonly inspect?: typeof inspectStore;
}

/** The file whose secrets the next start reads. */
export interface SecretsFile {
  readonly path: string;
  readonly config: Config;
  /** Returns the versions of the changed list in order. Throws CommandFailure where it stays. */
  change(change: SecretsChange): Promise<readonly string[]>;
}

/** Throws, with what to do, if there is no file that a command can change. */
export function secretsFile({ env, readFile }: SecretsWorld): SecretsFile {
  const settings = readSettings(env, readFile);
  if ("problems" in settings) throw new CommandFailure(settings.problems.join("\n"));
  if (env.KEYRUN_SECRET !== undefined) {
    throw new CommandFailure(
      "KEYRUN_SECRET holds the secrets themselves, and a command can't change the settings of the server. Write them to a file that only you can read, restart Keyrun with KEYRUN_SECRET_FILE naming that file instead of KEYRUN_SECRET, and try again.",
    );
  }
  const config = settings.ok;
  const path = env.KEYRUN_SECRET_FILE ?? secretPath(config.dataDir);
  return {
    path,
    config,
    async change(change) {
      const changed = await changeSecrets(path, change);
      if ("refused" in changed) throw new CommandFailure(changed.refused);
      return changed.secrets.map(secretVersion);
    },
  };
}

export function secretVersion(secret: Buffer): string {
  return createServiceSecrets([secret]).newestVersion;
}
