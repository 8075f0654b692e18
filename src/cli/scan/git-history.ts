import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { CommandFailure } from "../command-failure.ts";
import { scanBounds } from "./scan-bounds.ts";

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

/**
 * Every object of the repository that holds the folder, piece by piece: all that was ever committed
 * on any branch and not yet collected as garbage, also what no branch has any more. Asks no server,
 * and runs nothing that the repository's own settings name.
 */
export async function* gitObjects(folder: string): AsyncGenerator<ObjectPiece> {
  const git = startGit(folder, ["cat-file", "--batch", "--batch-all-objects", "--buffer", "--unordered"]);
  yield* readObjects(git.child.stdout);
  await git.end();
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
  const child: ChildProcessWithoutNullStreams = spawn("git", ["--no-pager", ...settings, ...args], {
    cwd: folder,
    env: { ...gitEnvironment(), GIT_NO_LAZY_FETCH: "1", GIT_TERMINAL_PROMPT: "0", LC_ALL: "C" },
  });
  child.stdin.end();
  let words = "";
  child.stderr.on("data", (chunk: Buffer) => {
    words = (words + chunk.toString()).slice(0, scanBounds.gitWordsMax);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on("error", (error) => reject(gitFailure(folder, error.message)));
    child.on("close", resolve);
  });
  // It is awaited once all of the output is read.
  ended.catch(() => undefined);
  return {
    child,
    async end() {
      if ((await ended) !== 0) throw gitFailure(folder, words.trim().split("\n")[0] ?? "");
    },
  };
}

/** Without the repository that a hook of git names: the folder says which one is meant. */
function gitEnvironment(): NodeJS.ProcessEnv {
  const { GIT_DIR: _dir, GIT_WORK_TREE: _tree, GIT_INDEX_FILE: _index, ...others } = process.env;
  return others;
}

function gitFailure(folder: string, words: string): CommandFailure {
  return new CommandFailure(`The history of ${folder} could not be read: ${words}`, { exitCode: 2 });
}

/** Reads `<id> <kind> <size>\n<bytes>\n` again and again. */
async function* readObjects(output: AsyncIterable<Buffer>): AsyncGenerator<ObjectPiece> {
  let head = "";
  let object: { id: string; kind: string; left: number; isFirst: boolean } | undefined;
  for await (const chunk of output) {
    for (let at = 0; at < chunk.length; ) {
      if (!object) {
        const end = chunk.indexOf(10, at);
        head += chunk.toString("latin1", at, end < 0 ? chunk.length : end);
        if (head.length > scanBounds.gitLineMax) throw new Error("git named an object with a line too long");
        at = end < 0 ? chunk.length : end + 1;
        if (end < 0) continue;
        const [id = "", kind = "", size = ""] = head.split(" ");
        head = "";
        if (size !== "") object = { id, kind, left: Number(size), isFirst: true };
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
}

async function* linesOf(output: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of output) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = (lines.pop() ?? "").slice(0, scanBounds.gitLineMax);
    yield* lines;
  }
  if (rest !== "") yield rest;
}
