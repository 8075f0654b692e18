/** `backup` and `restore` of the embedded store. MongoDB has tools of its own for both. */

import { resolve } from "node:path";
import { findServiceSecrets } from "../app/service-secrets.ts";
import { systemClock } from "../base/clock.ts";
import { type Config, isEmbedded } from "../settings/config.ts";
import { findSecrets } from "../settings/data-folder.ts";
import { type BackedUp, backUpStore, restoreStore } from "../store/sqlite/backup.ts";
import { startCommand } from "./called.ts";
import { readConfig, type SettingsWorld } from "./connection.ts";
import { CommandFailure } from "./failures.ts";
import { counted, type JsonOption, type Terminal } from "./terminal.ts";

/** Copies the data folder of the settings, served or not, into a new folder. */
export async function backUp(world: SettingsWorld, terminal: Terminal, folder: string, { json }: JsonOption) {
  const config = embeddedConfig(world, "mongodump");
  const target = resolve(folder);
  const found = await backUpStore({ dataDir: config.dataDir, target });
  if (json) return terminal.print(JSON.stringify({ folder: target, ...found }, null, 2));
  terminal.print(`Backed up, and checked: ${countsOf(found)}, in ${target}.`);
  terminal.note(
    config.secrets === undefined
      ? "It holds the secret: keep it from others."
      : "Keep a copy of what KEYRUN_SECRET_FILE or KEYRUN_SECRET holds with it: without that, no key works.",
  );
}

/** Puts a backup in place of what the data folder of the settings holds. */
export async function restore(
  world: SettingsWorld,
  terminal: Terminal,
  folder: string,
  { json }: JsonOption,
) {
  const config = embeddedConfig(world, "mongorestore");
  const { dataDir } = config;
  const allow = async (versions: readonly string[], secretsIn: string) =>
    void (await findServiceSecrets(config, { findSecrets: () => findSecrets(secretsIn) }, versions));
  const done = await restoreStore({ dataDir, source: resolve(folder), allow, clock: systemClock });
  if (json) return terminal.print(JSON.stringify({ ...done, unknown: done.unknown ?? null }, null, 2));
  terminal.print(`Restored, and checked: ${countsOf(done)}.`);
  if (done.unknown === undefined) {
    const ends = done.revoked === 1 ? "1 key or token was" : `${done.revoked} keys and tokens were`;
    terminal.print(`${ends} revoked or given an end since the backup, and stay so.`);
  } else {
    terminal.note(
      `What was revoked since the backup is not known (${done.unknown}), and works again, and what was used of quotas since can be used again. Revoke those keys again: the log names them, as \`a key was revoked\`.`,
    );
  }
  if (done.replaced !== undefined) terminal.print(`What was there before is in ${done.replaced}.`);
  terminal.note(`Start Keyrun with \`${startCommand}\`.`);
}

function embeddedConfig(world: SettingsWorld, instead: string): Config {
  const config = readConfig(world);
  if (isEmbedded(config)) return config;
  throw new CommandFailure(
    `This is for the embedded store, and KEYRUN_MONGODB_URI names a database: use \`${instead}\`, as docs/fleet.md says.`,
  );
}

function countsOf({ teams, keys, bytes, schema }: BackedUp): string {
  const sizes = `${Math.ceil(bytes / 1_000).toLocaleString("en")} KB, schema ${schema}`;
  return `${counted(teams, "team")} and ${counted(keys, "key")} (${sizes})`;
}
