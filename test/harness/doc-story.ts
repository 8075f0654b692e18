import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type DocNetwork, openDocNetwork, substitutePorts } from "./doc-network.ts";
import type { Act, Terminal } from "./doc-page.ts";
import { type DocTerminal, openDocTerminal, type Typed } from "./doc-terminal.ts";
import { asHere, asPage, isSaid } from "./page-text.ts";

/** Lines that a story skips: the packages are installed, and tests would run inside tests. */
const settled = ["npm ci", "npm test"];
/** A line that starts a server, which goes on running in its terminal until Ctrl-C. */
const serverLine = /(npm start|npm run example|keyrun serve)$/;
const readyLine = /(is ready: |listens on ).*\n/;
/** With which the page says that the server does not start. */
const refusedWords = "Keyrun can't start: ";
/** They end what hangs. A machine may be very busy. */
const readyMsMax = 120_000;
const endMsMax = 120_000;
const commandsMsMax = 300_000;

export interface StoryPlace {
  /** An empty folder, which becomes the clone; or stays empty, where `programs` has Keyrun. */
  readonly folder: string;
  readonly isClone?: boolean;
  /** The database to use in place of the page's, on this machine's network. */
  readonly mongodbUri?: string | undefined;
  /** The Redis to use in place of the page's. */
  readonly redisUrl?: string | undefined;
  /** A folder of programs that the page takes as installed. */
  readonly programs?: string | undefined;
  /** Uses other ports than the page's, although the machine may allow the page's own. */
  readonly otherPorts?: boolean;
}

/**
 * Does what a page says, as its reader would: in a clone, with one shell for each terminal, on the
 * ports as written (or on others, where the machine allows no network of its own: see
 * `substitutePorts`), and with servers that run until the page says Ctrl-C. Rejects if a step fails
 * or does not print what the page says, if the page types where a server runs, or if it leaves
 * files that others can read or that `git add .` takes. Ids, keys and times may differ, and a line
 * `…` matches any lines. A server whose text begins with "Keyrun can't start: " must not start.
 */
export async function runStory(
  acts: readonly Act[],
  { folder, isClone = true, mongodbUri, redisUrl, programs = "", otherPorts = false }: StoryPlace,
): Promise<void> {
  if (isClone) makeClone(folder);
  const network = await openNetwork({ mongodbUri, redisUrl, otherPorts });
  const terminals = new Map<Terminal, DocTerminal>();
  const servers: Servers = new Map();
  try {
    for (const act of acts) {
      if (act.kind === "end") {
        await endServer(act.terminal, { terminals, servers });
        continue;
      }
      const running = servers.get(act.terminal);
      if (running) {
        throw new Error(
          `This page types in the ${act.terminal} terminal, where this still runs:\n${running.commands}\nIt types:\n${act.commands}`,
        );
      }
      const terminal =
        terminals.get(act.terminal) ?? openDocTerminal({ folder, enter: network.enter, programs });
      terminals.set(act.terminal, terminal);
      const server = await typeBlock(terminal, act, network);
      if (server) servers.set(act.terminal, { typed: server, commands: act.commands });
    }
  } finally {
    await Promise.all([...terminals.values()].map((terminal) => terminal.close()));
    await network.close();
  }
  if (isClone) checkLeavings(folder);
}

/** The blocks that started a server, by the terminal in which it runs. */
type Servers = Map<Terminal, { readonly typed: Typed; readonly commands: string }>;

function openNetwork({
  mongodbUri,
  redisUrl,
  otherPorts,
}: Omit<StoryPlace, "folder" | "isClone" | "programs">): Promise<DocNetwork> {
  // The database is on this machine's network, so the story has to be there, too.
  if (mongodbUri !== undefined)
    return substitutePorts(
      new Map([
        ["mongodb://127.0.0.1:27017/keyrun", mongodbUri],
        ...(redisUrl === undefined ? [] : [["redis://127.0.0.1:6379", redisUrl] as const]),
      ]),
    );
  return otherPorts ? substitutePorts() : openDocNetwork();
}

/** Types a block and waits for its end, or for the server that its last line starts. */
async function typeBlock(
  terminal: DocTerminal,
  { commands, prints = "" }: Extract<Act, { kind: "type" }>,
  { places, serverLine: asTyped }: DocNetwork,
): Promise<Typed | undefined> {
  const lines = commands.split("\n").filter((line) => line !== "" && !settled.includes(line));
  const isRefused = prints.startsWith(refusedWords);
  const isServer = serverLine.test(lines.at(-1) ?? "") && !isRefused;
  if (lines.slice(0, -1).some((line) => serverLine.test(line)))
    throw new Error(`A line after a server is never reached:\n${commands}`);
  // A server that Ctrl-C ends is no failure of the shell's.
  const typed = lines.map((line) => (serverLine.test(line) ? `${asTyped(line)} || :` : line)).join("\n");
  const done = terminal.type(asHere(typed, places));
  const isReady = () => {
    const { out } = done.state();
    return isServer && readyLine.test(out) && isSaid(out, `${prints.replace(/…\n$/, "")}…\n`, places);
  };
  await until(done, () => isReady() || done.state().over, isServer ? readyMsMax : commandsMsMax);
  const { over, failed, out, err } = done.state();
  const heard = `${asPage(out, places)}\n${err}`;
  if (failed) throw new Error(`This failed:\n${commands}\n${heard}`);
  if (isServer && over) throw new Error(`The server of these lines ended:\n${commands}\n${heard}`);
  if (!isServer && !over) throw new Error(`This does not end:\n${commands}\n${heard}`);
  const said = isRefused ? err.slice(Math.max(0, err.indexOf(refusedWords))) : out;
  if (isServer ? !isReady() : prints !== "" && !isSaid(said, prints, places))
    throw new Error(`This page says\n${prints}\nbut what is printed is\n${heard}`);
  return isServer ? done : undefined;
}

/** Presses Ctrl-C in the terminal, or in the only one with a server if the page names none. */
async function endServer(
  named: Terminal | undefined,
  { terminals, servers }: { terminals: Map<Terminal, DocTerminal>; servers: Servers },
): Promise<void> {
  const running = [...servers.keys()];
  const which = named ?? running[0];
  if (which === undefined || (named === undefined && running.length > 1))
    throw new Error(`This page says Ctrl-C and not where: servers run in ${running.length} terminals.`);
  const server = servers.get(which);
  if (!server) throw new Error(`This page says Ctrl-C in the ${which} terminal, where nothing runs.`);
  terminals.get(which)?.pressCtrlC();
  const { typed, commands } = server;
  await until(typed, () => typed.state().over, endMsMax);
  const { over, failed, out, err } = typed.state();
  if (!over || failed) throw new Error(`Ctrl-C did not end this:\n${commands}\n${out}\n${err}`);
  servers.delete(which);
}

async function until(typed: Typed, condition: () => boolean, msMax: number): Promise<void> {
  const end = performance.now() + msMax;
  while (!condition() && performance.now() < end) await typed.changed(end - performance.now());
}

/** What `npm ci` makes. In a clone these are folders, which .gitignore names. */
const installed = ["node_modules", "web/dist"];
const parts = [
  ...["keyrun", "package.json", ".npmrc", ".gitignore", ".env.example", "buf.yaml"],
  "docs/leaked-keys",
  ...["bin", "src", "packages", "gen", "proto", "examples", "deploy"],
];

function makeClone(folder: string): void {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const filter = (path: string) => !path.endsWith("/node_modules");
  for (const part of parts) cpSync(join(root, part), join(folder, part), { recursive: true, filter });
  mkdirSync(join(folder, "web"));
  for (const path of installed) symlinkSync(join(root, path), join(folder, path));
  git(folder, "init", "--quiet");
  writeFileSync(join(folder, ".git/info/exclude"), `${installed.join("\n")}\n`);
  git(folder, "add", ".");
}

/** What a page makes may hold secrets: it must be for its owner alone, and not for git. */
function checkLeavings(folder: string): void {
  const taken = git(folder, "add", "--dry-run", ".");
  if (taken !== "") throw new Error(`\`git add .\` takes what this page makes:\n${taken}`);
  const made = git(folder, "ls-files", "-z", "--others", "--ignored", "--exclude-standard").split("\0");
  const files = made.filter((path) => path !== "" && !installed.includes(path));
  const folders = new Set(files.map((path) => dirname(path)).filter((path) => path !== "."));
  // Those of compose.yaml are read by other users inside of containers. Their folder is private.
  const own = files.filter((path) => !path.startsWith("secrets/"));
  const open = [...folders, ...own].filter((path) => (statSync(join(folder, path)).mode & 0o077) !== 0);
  if (open.length > 0) throw new Error(`Others can read what this page makes: ${open.join(", ")}`);
}

function git(folder: string, ...args: string[]): string {
  return execFileSync("git", args, { cwd: folder, encoding: "utf8" });
}
