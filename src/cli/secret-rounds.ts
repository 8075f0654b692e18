import { randomBytes } from "node:crypto";
import type { LeaseRecord } from "../fleet/control-store.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { type HeldSecret, putLast } from "../settings/change-secrets.ts";
import type { Config } from "../settings/config.ts";
import { newSecretText } from "../settings/data-folder.ts";
import { inspectStore, type StoreInspection } from "../store/store-inspection.ts";
import { CommandFailure } from "./command-failure.ts";
import { type SecretsFile, type SecretsWorld, secretsFile, secretVersion } from "./secrets-file.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

// The three rounds in which a fleet gets a new secret. Each changes the file, after a look at who
// serves the store: an instance that is not as far yet could not read the keys of one that is.

/** Puts a new secret last: every instance is to know it before one makes keys with it. */
export async function addSecret(world: SecretsWorld, terminal: Terminal, options: JsonOption): Promise<void> {
  const file = secretsFile(world);
  const versions = await file.change(putLast(newSecretText(randomBytes)));
  const before = versions.slice(0, -1).join(", ");
  say(terminal, options, {
    ...{ file, versions },
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
  const versions = await file.change((held) => {
    const last = held.at(-1);
    if (!last || held.length < 2) return `${file.path} holds one secret. Add one with \`secrets add\` first.`;
    const version = secretVersion(last.secret);
    const behind = instances.find(({ facts }) => !facts.secretVersions.includes(version));
    if (!behind) return [{ ...last, isUnpromoted: false }, ...held.slice(0, -1)];
    return `${inWords(behind)} does not know version ${version} yet, and could not read the keys made with it. Put this file there, restart it, and try again.`;
  });
  const [newest, ...older] = versions;
  say(terminal, options, {
    ...{ file, versions },
    done: `The secret of version ${newest} is the first in ${file.path}, before version ${older.join(", ")}.`,
    next: "Put this file on every instance, and restart them in turn. Each makes keys with it from then on.",
  });
}

/** Removes a secret that no key needs: that of the version, or else the last. */
export async function dropSecret(
  world: SecretsWorld,
  terminal: Terminal,
  options: JsonOption & { readonly version?: string | undefined },
): Promise<void> {
  const file = secretsFile(world);
  const store = await lookAtStore(world, file.config);
  let dropped = "";
  const versions = await file.change((held) => {
    dropped = options.version ?? versionOf(held.at(-1));
    const place = held.findIndex((each) => versionOf(each) === dropped);
    const isUnpromoted = held[place]?.isUnpromoted ?? false;
    const problem = problemOfDrop({ version: dropped, place, isUnpromoted, path: file.path, store });
    return problem ?? held.toSpliced(place, 1);
  });
  say(terminal, options, {
    ...{ file, versions },
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

/** What serves the store may make a key with the secret right after the look at the keys. */
function problemOfMakers(version: string, store: StoreInspection): string | undefined {
  // Nobody but the process itself knows which secrets it has read.
  if (store.isServed) {
    return `A Keyrun serves the store alone, and may still make keys with version ${version}. Stop it first, then run this again and start it.`;
  }
  if (store.isHeld) {
    return `A Keyrun that served the store alone is suspended or was killed, and may still make keys with version ${version} if it goes on. Start Keyrun again, which takes its place, stop it, and try again.`;
  }
  const behind = store.registered.find(({ facts }) => facts.secretVersions[0] === version);
  if (!behind) return undefined;
  return `${inWords(behind)} still makes keys with version ${version}. Put this file there, restart it, and try again. If it is gone for good, the others forget it within a minute.`;
}

const versionOf = (held: HeldSecret | undefined) => (held ? secretVersion(held.secret) : "");

const lookMsMax = 5_000;

async function lookAtStore(
  { inspect = inspectStore }: SecretsWorld,
  config: Config,
): Promise<StoreInspection> {
  try {
    return await inspect(config, { msMax: lookMsMax });
  } catch (thrown) {
    throw thrown instanceof StartRefused ? new CommandFailure(thrown.message, { cause: thrown }) : thrown;
  }
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
