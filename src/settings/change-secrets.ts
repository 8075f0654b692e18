/** Changes the file that holds the list of service secrets, safely beside other commands. */

import { type FileHandle, open, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { syncFolder } from "./data-folder.ts";
import { environment, serviceSecretsMax } from "./known.ts";
import { splitSecrets, unpromotedMark } from "./text.ts";

/** One secret of the list, as it is written and as it is used. */
export interface ListedSecret {
  readonly text: string;
  readonly secret: Buffer;
  /** True from `secrets add` to `secrets promote`: the secret is newer than the first. */
  readonly isUnpromoted: boolean;
}

/** The secrets of the file, newest first, or a sentence on why the file is as it was. */
export type SecretsChanged = { readonly secrets: readonly Buffer[] } | { readonly refused: string };

/** What becomes of the list; a sentence where it stays. */
export type SecretsChange = (listed: readonly ListedSecret[]) => readonly ListedSecret[] | string;

/**
 * Changes the list that the file holds, which is then one secret a line, with a line before each
 * that is not promoted yet. It is durable when the promise resolves. A crash leaves the old file or
 * the new one, never a part. Two changes at the same time never lose a secret: the second is
 * refused.
 */
export async function changeSecrets(path: string, change: SecretsChange): Promise<SecretsChanged> {
  try {
    // A link stays, and the file that it leads to is replaced.
    return await changeFile(await realpath(path), change);
  } catch (thrown) {
    return { refused: refusalOf(path, thrown) };
  }
}

/** The change that puts a new secret before the others, which it keeps. */
export function putFirst(newText: string): SecretsChange {
  return (listed) => [listedSecret({ text: newText, isUnpromoted: false }), ...listed];
}

/** The change that puts a new secret after the others, where it waits to be promoted. */
export function putLast(newText: string): SecretsChange {
  return (listed) => [...listed, listedSecret({ text: newText, isUnpromoted: true })];
}

function listedSecret({ text, isUnpromoted }: Omit<ListedSecret, "secret">): ListedSecret {
  return { text, secret: Buffer.from(text, "base64url"), isUnpromoted };
}

async function changeFile(path: string, change: SecretsChange): Promise<SecretsChanged> {
  const draftPath = `${path}.new`;
  // Only one process can make the draft, and only that one may change the list: it reads it after.
  const draft = await open(draftPath, "wx", 0o600);
  let isRenamed = false;
  try {
    const old = await readFile(path, "utf8");
    if (!environment.shape.KEYRUN_SECRET.safeParse(old).success) return { refused: damaged(path) };
    const changed = change(splitSecrets(old).map(listedSecret));
    if (typeof changed === "string") return { refused: changed };
    if (changed.length > serviceSecretsMax) return { refused: tooMany(path) };
    const lines = changed.flatMap(({ text, isUnpromoted }) =>
      isUnpromoted ? [unpromotedMark, text] : [text],
    );
    await draft.writeFile(`${lines.join("\n")}\n`);
    await keepOwner(draft, path);
    await draft.sync();
    await rename(draftPath, path);
    isRenamed = true;
    const unsynced = await syncFolder(dirname(path)).then(
      () => undefined,
      ({ code }: NodeJS.ErrnoException) => code ?? "unknown",
    );
    if (unsynced !== undefined) return { refused: notDurable(path, unsynced) };
    return { secrets: changed.map(({ secret }) => secret) };
  } finally {
    await draft.close();
    // After the rename, a draft is that of another change.
    if (!isRenamed) await rm(draftPath, { force: true });
  }
}

/** The draft gets the owner and the rights of the file, whose place it takes. */
async function keepOwner(draft: FileHandle, path: string): Promise<void> {
  const [own, its] = [await draft.stat(), await stat(path)];
  if (own.uid !== its.uid || own.gid !== its.gid) await draft.chown(its.uid, its.gid);
  await draft.chmod(its.mode & 0o777);
}

function notDurable(path: string, code: string): string {
  return `The list in ${path} is changed, but its folder can't be synced (${code}): a crash of this machine may undo that. Back the file up, and don't repeat the command.`;
}

function damaged(path: string): string {
  return `The file ${path} does not hold a list of secrets: restore it from a backup first.`;
}

function tooMany(path: string): string {
  return `The file ${path} holds ${serviceSecretsMax} secrets, as many as it may: remove the last of them that no key needs, and try again.`;
}

function refusalOf(path: string, thrown: unknown): string {
  const { code = "unknown", path: named = path } =
    thrown instanceof Error ? (thrown as NodeJS.ErrnoException) : {};
  if (code === "EEXIST") {
    return `The file ${named} is there: another command changes the secrets, or one was ended in the middle. If none runs, remove that file, which holds nothing that is in use, and try again.`;
  }
  if (code === "ENOENT") return `There is no file ${path}: the first start of Keyrun makes it.`;
  return `The file ${path} can't be replaced (${code}): run this as its owner, where its folder can be written and has room. If it comes from elsewhere, change its list there: \`openssl rand -hex 32\` makes a new secret.`;
}
