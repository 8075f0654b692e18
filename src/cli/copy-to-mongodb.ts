import { findServiceSecrets } from "../app/service-secrets.ts";
import { systemClock } from "../base/clock.ts";
import { Refusal } from "../refusal/refusal.ts";
import type { Config } from "../settings/config.ts";
import { findSecrets } from "../settings/data-folder.ts";
import { type CopiedCounts, copyDataFolder } from "../store/copy-data-folder.ts";
import { readConfig, type SettingsWorld } from "./connection.ts";
import { CommandFailure } from "./failures.ts";
import { counted, type JsonOption, type Terminal } from "./terminal.ts";

/** Copies what the data folder of the settings holds into the database that they name. */
export async function copyToMongodb(
  world: SettingsWorld,
  terminal: Terminal,
  { json }: JsonOption,
): Promise<void> {
  const config = readConfig(world);
  const { dataDir, mongodbUri } = config;
  if (mongodbUri === undefined) {
    throw new CommandFailure(
      "KEYRUN_MONGODB_URI or KEYRUN_MONGODB_URI_FILE must be set: it names the database that takes the copy.",
    );
  }
  try {
    const counts = await copyDataFolder({ dataDir, mongodbUri }, partsOf(config, terminal));
    terminal.print(json ? JSON.stringify(counts, null, 2) : wordsOf(counts));
  } catch (thrown) {
    throw failureOf(thrown);
  }
  terminal.note(
    `Start Keyrun with these settings from now on. ${dataDir} is as it was: don't serve it any more, as a key that is revoked in one of the two still works in the other.`,
  );
}

function partsOf(config: Config, terminal: Terminal) {
  const { dataDir } = config;
  return {
    clock: systemClock,
    events: {
      onWaiting: (waitMsMax: number) =>
        terminal.note(`Another Keyrun had the database a moment ago: waiting up to ${waitMsMax / 1_000} s.`),
      onRenewalFailed: () => {},
      onLost: () => {},
    },
    // The keys are of no use without the secrets that they were made with.
    allow: async (secretVersions: readonly string[]) =>
      void (await findServiceSecrets(config, { findSecrets: () => findSecrets(dataDir) }, secretVersions)),
  };
}

function wordsOf({ teams, members, apps, keys, runs }: CopiedCounts): string {
  return `Copied to MongoDB, and compared: ${counted(teams, "team")}, ${counted(members, "member")}, ${counted(apps, "app")}, ${counted(keys, "key")} and ${counted(runs, "kept run")}.`;
}

function failureOf(thrown: unknown): unknown {
  if (!(thrown instanceof Refusal) || thrown.reason !== "UNAVAILABLE") return thrown;
  return new CommandFailure(
    "MongoDB stopped answering while the copy was made. Check that it runs well, and run the command again: it begins anew.",
    { cause: thrown },
  );
}
