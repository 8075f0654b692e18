/** Reads all objects of a git repository with the git of this machine, safely. */

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { realpath, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/** Characters of what git says that are kept. */
const gitWordsMax = 4_096;
/** Characters of a line in which git names an object, or a path. */
const gitLineMax = 16_384;

/** A piece of an object of a git repository. */
export interface ObjectPiece {
  readonly id: string;
  readonly kind: string;
  /** Whether the object begins with it. */
  readonly isFirst: boolean;
  readonly bytes: Uint8Array;
}

export interface ObjectPlace {
  readonly commit: string;
  readonly path: string;
}

export interface Repository {
  /** Its own folder, which tells it from others. Worktrees of one clone share it. */
  readonly id: string;
  /** A folder that it holds. */
  readonly folder: string;
}

/**
 * The repository that holds the file or folder; undefined for what no repository can hold, such as
 * a pipe, and for a path that is not there. Throws a sentence where git finds none.
 */
export async function repositoryOf(path: string): Promise<Repository | undefined> {
  const kind = await stat(path).catch(() => undefined);
  if (!kind?.isDirectory() && !kind?.isFile()) return undefined;
  const folder = kind.isFile() ? dirname(path) : path;
  const git = startGit(folder, ["rev-parse", "--git-common-dir"]);
  let own = "";
  for await (const line of linesOf(git.child.stdout)) own ||= line;
  await git.end();
  return { id: await realpath(resolve(folder, own)), folder };
}

/**
 * Every object of the repository that holds the folder, piece by piece: all that was ever committed
 * on any branch and not yet collected as garbage, also what no branch has any more. Asks no server,
 * and runs nothing that the repository's own settings name. Throws a sentence, after what could be
 * read, if that was not all.
 */
export async function* gitObjects(folder: string): AsyncGenerator<ObjectPiece> {
  const git = startGit(folder, ["cat-file", "--batch", "--batch-all-objects", "--buffer", "--unordered"]);
  const damaged = yield* readObjects(git.child.stdout);
  await git.end();
  if (damaged > 0) throw new Error(`git can't read ${damaged} of its objects: \`git fsck\` names them`);
}

/** The commit in which the object appeared first, and its path there; undefined if none has it. */
export async function placeOfObject(folder: string, id: string): Promise<ObjectPlace | undefined> {
  const options = ["--all", "--reflog", "-m", "--no-renames", "--no-ext-diff", "--no-textconv"];
  const shown = ["--name-only", "--format=tformat:commit %H", `--find-object=${id}`];
  const git = startGit(folder, ["log", ...options, ...shown, "--"]);
  let place: ObjectPlace | undefined;
  let commit = "";
  for await (const line of linesOf(git.child.stdout)) {
    const [, named] = /^commit ([0-9a-f]{40,64})$/.exec(line) ?? [];
    if (named !== undefined) commit = named;
    else if (line !== "" && commit !== place?.commit) place = { commit, path: line };
  }
  await git.end();
  return place;
}

/** In place of the repository's: with its own, git would run programs and ask servers. */
const safeSettings = {
  "core.quotePath": "false",
  "core.fsmonitor": "false",
  "log.showSignature": "false",
  "protocol.allow": "never",
};

function startGit(folder: string, args: readonly string[]) {
  const settings = Object.entries(safeSettings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const child = spawned([...settings, ...args], folder);
  child.stdin.end();
  let words = "";
  child.stderr.on("data", (chunk: Buffer) => {
    words = (words + chunk.toString()).slice(0, gitWordsMax);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on("error", (error) => reject(notStarted(error)));
    child.on("close", resolve);
  });
  // It is awaited once all of the output is read.
  ended.catch(() => undefined);
  return {
    child,
    async end() {
      if ((await ended) !== 0) throw refusalOf(words);
    },
  };
}

function spawned(args: readonly string[], folder: string): ChildProcessWithoutNullStreams {
  const env = { ...gitEnvironment(), GIT_NO_LAZY_FETCH: "1", GIT_TERMINAL_PROMPT: "0", LC_ALL: "C" };
  try {
    return spawn("git", ["--no-pager", ...args], { cwd: folder, env });
  } catch (error) {
    // Some faults come as an event, and some are thrown.
    throw notStarted(error);
  }
}

/** What is missing is git, and not the folder: `repositoryOf` has checked. */
function notStarted(error: unknown): Error {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const why = code === "ENOENT" ? "git is not installed" : `git could not be started (${code})`;
  return new Error(why, { cause: error });
}

function refusalOf(words: string): Error {
  if (words.includes("not a git repository")) return new Error("it is not in a git repository");
  return new Error(`git says: ${words.trim().split("\n")[0]}`);
}

/** Without the repository that a hook of git names: the folder says which one is meant. */
function gitEnvironment(): NodeJS.ProcessEnv {
  const { GIT_DIR: _dir, GIT_WORK_TREE: _tree, GIT_INDEX_FILE: _index, ...others } = process.env;
  return others;
}

/**
 * Reads `<id> <kind> <size>\n<bytes>\n` again and again. The result is how many damaged objects
 * there are: git has a line for each, without a size, and does not fail.
 */
async function* readObjects(output: AsyncIterable<Buffer>): AsyncGenerator<ObjectPiece, number> {
  let damaged = 0;
  let head = "";
  let object: { id: string; kind: string; left: number; isFirst: boolean } | undefined;
  for await (const chunk of output) {
    for (let at = 0; at < chunk.length; ) {
      if (!object) {
        const end = chunk.indexOf(10, at);
        head += chunk.toString("latin1", at, end < 0 ? chunk.length : end);
        if (head.length > gitLineMax) throw new Error("git named an object with a line too long");
        at = end < 0 ? chunk.length : end + 1;
        if (end < 0) continue;
        const [id = "", kind = "", size = ""] = head.split(" ");
        head = "";
        if (size === "") damaged += 1;
        else object = { id, kind, left: Number(size), isFirst: true };
        continue;
      }
      const bytes = chunk.subarray(at, at + object.left);
      const { id, kind, isFirst } = object;
      if (bytes.length > 0) yield { id, kind, isFirst, bytes };
      at += bytes.length;
      object = { ...object, left: object.left - bytes.length, isFirst: isFirst && bytes.length === 0 };
      // The line break behind the object.
      if (object.left === 0 && at < chunk.length) {
        at += 1;
        object = undefined;
      }
    }
  }
  return damaged;
}

async function* linesOf(output: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of output) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = (lines.pop() ?? "").slice(0, gitLineMax);
    yield* lines;
  }
  if (rest !== "") yield rest;
}
