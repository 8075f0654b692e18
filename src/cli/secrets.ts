/**
 * The list of service secrets. A single instance rotates it at once. A fleet does it in three
 * rounds, and each checks first what serves the store: an instance that is not as far yet could
 * not read the keys of one that is.
 */

import { randomBytes } from "node:crypto";
import type { LeaseRecord } from "../fleet/control-store.ts";
import { createServiceSecrets } from "../keys/service-secrets.ts";
import {
  changeSecrets,
  type ListedSecret,
  putFirst,
  putLast,
  type SecretsChange,
} from "../settings/change-secrets.ts";
import type { Config } from "../settings/config.ts";
import { findSecrets, newSecretText, secretPath } from "../settings/data-folder.ts";
import { inspectStore } from "../store/open-stores.ts";
import type { StoreInspection } from "../store/stores.ts";
import { programName, startCommand } from "./called.ts";
import { readConfig, type SettingsWorld } from "./connection.ts";
import { CommandFailure } from "./failures.ts";
import type { ConfirmOption, JsonOption, Terminal } from "./terminal.ts";

interface SecretsWorld extends SettingsWorld {
  /** By default `inspectStore`. */
  readonly inspect?: typeof inspectStore;
}

/** Prints the versions of the secrets that the next start reads, in their order, and no secret. */
export async function listSecrets(
  world: SettingsWorld,
  terminal: Terminal,
  { json }: JsonOption,
): Promise<void> {
  const { secrets, dataDir } = readConfig(world);
  const versions = (secrets ?? (await secretsOf(dataDir))).map(secretVersion);
  if (json) return terminal.print(JSON.stringify({ versions }, null, 2));
  for (const [index, version] of versions.entries()) {
    terminal.print(`${index + 1}. version ${version}${index === 0 ? ", which makes new keys" : ""}`);
  }
}

async function secretsOf(dataDir: string): Promise<readonly Buffer[]> {
  const found = await findSecrets(dataDir);
  if (found !== undefined) return found;
  throw new CommandFailure(
    `There is no file ${secretPath(dataDir)}: the first \`${startCommand}\` makes it.`,
  );
}

/** Puts a new secret before the others of one instance alone. A fleet does it in rounds. */
export async function rotateSecrets(
  world: SecretsWorld,
  terminal: Terminal,
  options: JsonOption,
): Promise<void> {
  const file = secretsFile(world);
  if (file.config.sharedLimit) {
    throw new CommandFailure(
      `These are the settings of a fleet, in which every instance must know a secret before one makes keys with it. Put the new secret last with \`${programName} secrets add\`, and restart every instance.`,
    );
  }
  const versions = await file.change(putFirst(newSecretText(randomBytes)));
  const [newest, ...older] = versions;
  say(terminal, options, {
    file,
    versions,
    done: `A new secret is the first in ${file.path}: version ${newest}, before version ${older.join(", ")}.`,
    next: "Back this file up, then restart Keyrun. Keys that it makes from then on need the new secret.",
  });
}

/** Puts a new secret last: every instance is to know it before one makes keys with it. */
export async function addSecret(world: SecretsWorld, terminal: Terminal, options: JsonOption): Promise<void> {
  const file = secretsFile(world);
  const versions = await file.change(putLast(newSecretText(randomBytes)));
  const before = versions.slice(0, -1).join(", ");
  say(terminal, options, {
    file,
    versions,
    done: `A new secret is the last in ${file.path}: version ${versions.at(-1)}, after version ${before}.`,
    next: "Back this file up, and put it on every instance. Restart them in turn, then run `secrets promote`.",
  });
}

/** Puts the last secret before the others, so that it makes new keys. */
export async function promoteSecret(
  world: SecretsWorld,
  terminal: Terminal,
  options: JsonOption,
): Promise<void> {
  const file = secretsFile(world);
  const { instances } = await lookAtStore(world, file.config);
  const versions = await file.change((listed) => {
    const last = listed.at(-1);
    if (!last || listed.length < 2)
      return `${file.path} holds one secret. Add one with \`secrets add\` first.`;
    const version = secretVersion(last.secret);
    const behind = instances.find(({ facts }) => !facts.secretVersions.includes(version));
    if (!behind) return [{ ...last, isUnpromoted: false }, ...listed.slice(0, -1)];
    return `${inWords(behind)} does not know version ${version} yet, and could not read the keys made with it. Put this file there, restart it, and try again.`;
  });
  const [newest, ...older] = versions;
  say(terminal, options, {
    file,
    versions,
    done: `The secret of version ${newest} is the first in ${file.path}, before version ${older.join(", ")}.`,
    next: "Put this file on every instance, and restart them in turn. Each makes keys with it from then on.",
  });
}

/** Removes a secret that no key needs: that of the version, or else the last. */
export async function dropSecret(
  world: SecretsWorld,
  terminal: Terminal,
  options: JsonOption & ConfirmOption & { readonly version?: string | undefined },
): Promise<void> {
  const file = secretsFile(world);
  const which =
    options.version === undefined ? "The last secret" : `The secret of version ${options.version}`;
  await terminal.confirm(`${which} goes from ${file.path}.`, options);
  const store = await lookAtStore(world, file.config);
  let dropped = "";
  const versions = await file.change((listed) => {
    dropped = options.version ?? versionOf(listed.at(-1));
    const place = listed.findIndex((each) => versionOf(each) === dropped);
    const isUnpromoted = listed[place]?.isUnpromoted ?? false;
    const problem = problemOfDrop({ version: dropped, place, isUnpromoted, path: file.path, store });
    return problem ?? listed.toSpliced(place, 1);
  });
  say(terminal, options, {
    file,
    versions,
    done: `The secret of version ${dropped} is no longer in ${file.path}, which still has version ${versions.join(", ")}.`,
    next: `${file.config.sharedLimit ? "Put this file on every instance, and restart them in turn." : "Start Keyrun again."} Backups of the store from before need a copy of the file from before.`,
  });
}

function problemOfDrop(drop: {
  readonly version: string;
  readonly place: number;
  readonly isUnpromoted: boolean;
  readonly path: string;
  readonly store: StoreInspection;
}): string | undefined {
  const { version, place, isUnpromoted, path, store } = drop;
  if (place < 0) return `${path} holds no secret of version ${version}: see \`secrets list\`.`;
  if (place === 0) {
    return `The secret of version ${version} is the first in ${path} and makes new keys, so it can't be removed.`;
  }
  if (isUnpromoted) {
    return `The secret of version ${version} was added and never promoted, so it is newer than the first. Run \`secrets promote\` before you drop an old secret. If you don't want the new one after all, remove its line and the one before it from every copy of ${path}.`;
  }
  const maker = problemOfMakers(version, store);
  if (maker !== undefined) return maker;
  if (!store.secretVersions.includes(version)) return undefined;
  return `The store holds keys that were made with version ${version}, or accepted service tokens, so it must stay. A revoked key needs its secret, too; it goes with its team.`;
}

/** What serves the store may make a key with the secret right after the check of the keys. */
function problemOfMakers(version: string, store: StoreInspection): string | undefined {
  // Nobody but the process itself knows which secrets it has read.
  if (store.isServed) {
    return `A Keyrun serves the store alone, and may still make keys with version ${version}. Stop it first, then run this again and start it.`;
  }
  if (store.isLocked) {
    return `A Keyrun that served the store alone is suspended or was killed, and may still make keys with version ${version} if it goes on. Start Keyrun again, which takes its place, stop it, and try again.`;
  }
  const behind = store.registered.find(({ facts }) => facts.secretVersions[0] === version);
  if (!behind) return undefined;
  return `${inWords(behind)} still makes keys with version ${version}. Put this file there, restart it, and try again. If it is gone for good, the others forget it within a minute.`;
}

const versionOf = (listed: ListedSecret | undefined) => (listed ? secretVersion(listed.secret) : "");

const inspectMsMax = 5_000;

function lookAtStore({ inspect = inspectStore }: SecretsWorld, config: Config): Promise<StoreInspection> {
  return inspect(config, { msMax: inspectMsMax });
}

function inWords({ facts }: LeaseRecord): string {
  return facts.address === null ? "An instance" : `The instance at ${facts.address}`;
}

function say(
  terminal: Terminal,
  { json }: JsonOption,
  words: {
    readonly file: SecretsFile;
    readonly versions: readonly string[];
    readonly done: string;
    readonly next: string;
  },
): void {
  const { file, versions, done, next } = words;
  terminal.print(json ? JSON.stringify({ file: file.path, versions }, null, 2) : done);
  terminal.note(next);
}

/** The file whose secrets the next start reads. */
interface SecretsFile {
  readonly path: string;
  readonly config: Config;
  /** Returns the versions of the changed list in order. Throws CommandFailure where it stays. */
  change(change: SecretsChange): Promise<readonly string[]>;
}

/** Throws, with what to do, if there is no file that a command can change. */
function secretsFile(world: SecretsWorld): SecretsFile {
  const config = readConfig(world);
  const { env } = world;
  if (env.KEYRUN_SECRET !== undefined) {
    throw new CommandFailure(
      "KEYRUN_SECRET holds the secrets themselves, and a command can't change the settings of the server. Write them to a file that only you can read, restart Keyrun with KEYRUN_SECRET_FILE naming that file instead of KEYRUN_SECRET, and try again.",
    );
  }
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
