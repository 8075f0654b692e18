import { StartRefused } from "../refusal/start-refused.ts";
import { findSecrets, secretPath } from "../settings/data-folder.ts";
import { readSettings } from "../settings/read-settings.ts";
import { CommandFailure } from "./command-failure.ts";
import { type SecretsWorld, secretVersion } from "./secrets-file.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

/** Prints the versions of the secrets that the next start reads, in their order, and no secret. */
export async function listSecrets(
  { env, readFile }: SecretsWorld,
  terminal: Terminal,
  { json }: JsonOption,
): Promise<void> {
  const settings = readSettings(env, readFile);
  if ("problems" in settings) throw new CommandFailure(settings.problems.join("\n"));
  const { secrets, dataDir } = settings.ok;
  const versions = (secrets ?? (await secretsOf(dataDir))).map(secretVersion);
  if (json) return terminal.print(JSON.stringify({ versions }, null, 2));
  for (const [index, version] of versions.entries()) {
    terminal.print(`${index + 1}. version ${version}${index === 0 ? ", which makes new keys" : ""}`);
  }
}

async function secretsOf(dataDir: string): Promise<readonly Buffer[]> {
  const found = await findSecrets(dataDir).catch((thrown: unknown) => {
    throw thrown instanceof StartRefused ? new CommandFailure(thrown.message, { cause: thrown }) : thrown;
  });
  if (found !== undefined) return found;
  throw new CommandFailure(`There is no file ${secretPath(dataDir)}: the first \`npm start\` makes it.`);
}
