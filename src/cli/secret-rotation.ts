import { randomBytes } from "node:crypto";
import { rotateSecret } from "../data-folder/rotate-secret.ts";
import { newSecretText, secretPath } from "../data-folder/secret-files.ts";
import { createServiceSecrets } from "../keys/service-secrets.ts";
import { type Environment, readSettings } from "../settings/read-settings.ts";
import { CommandFailure } from "./command-failure.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

export interface SecretsWorld {
  readonly env: Environment;
  readFile(path: string): string;
}

/** Changes the file that the next start reads. */
export async function rotateSecrets(
  world: SecretsWorld,
  terminal: Terminal,
  { json }: JsonOption,
): Promise<void> {
  const path = fileToRotate(world);
  const rotation = await rotateSecret(path, newSecretText(randomBytes));
  if ("refused" in rotation) throw new CommandFailure(rotation.refused);
  const { versions } = createServiceSecrets(rotation.secrets);
  const [newest, ...older] = versions;
  terminal.print(
    json
      ? JSON.stringify({ file: path, versions }, null, 2)
      : `A new secret is the first in ${path}: version ${newest}, before version ${older.join(", ")}.`,
  );
  terminal.note(
    "Back this file up, then restart Keyrun. Keys that it makes from then on need the new secret.",
  );
}

/** The file that holds the secrets. Throws, with what to do, if there is none to change. */
function fileToRotate({ env, readFile }: SecretsWorld): string {
  const settings = readSettings(env, readFile);
  if ("problems" in settings) throw new CommandFailure(settings.problems.join("\n"));
  if (env.KEYRUN_SECRET !== undefined) {
    throw new CommandFailure(
      "KEYRUN_SECRET holds the secrets themselves, and a command can't change the settings of the server. Write them to a file that only you can read, restart Keyrun with KEYRUN_SECRET_FILE naming that file instead of KEYRUN_SECRET, and try again.",
    );
  }
  return env.KEYRUN_SECRET_FILE ?? secretPath(settings.ok.dataDir);
}
