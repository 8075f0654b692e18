import { randomBytes } from "node:crypto";
import { putFirst } from "../settings/change-secrets.ts";
import { newSecretText } from "../settings/data-folder.ts";
import { CommandFailure } from "./command-failure.ts";
import { type SecretsWorld, secretsFile } from "./secrets-file.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

/** Puts a new secret before the others of one instance alone. A fleet does it in rounds. */
export async function rotateSecrets(
  world: SecretsWorld,
  terminal: Terminal,
  { json }: JsonOption,
): Promise<void> {
  const { path, config, change } = secretsFile(world);
  if (config.sharedLimit) {
    throw new CommandFailure(
      "These are the settings of a fleet, in which every instance must know a secret before one makes keys with it. Put the new secret last with `./keyrun secrets add`, and restart every instance.",
    );
  }
  const versions = await change(putFirst(newSecretText(randomBytes)));
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
