import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import type { Command } from "commander";
import { createCli, createProgram } from "#src/cli/cli.ts";
import type { CliWorld, Terminal } from "#src/cli/terminal.ts";

/** What surrounds a command besides its arguments. */
export interface Circumstances {
  readonly env?: CliWorld["env"];
  /** Standard input, chunk by chunk. */
  readonly stdin?: readonly (string | Uint8Array)[];
  /** Standard input is a terminal. */
  readonly isTyped?: boolean;
  readonly serve?: CliWorld["serve"];
  readonly nodeVersion?: string;
  readonly storeMsMax?: number;
  /** The width of the terminal that the command writes to. Absent: it writes to pipes. */
  readonly columns?: number;
}

/** Runs one command in this process. The result is its exit status and everything it wrote. */
export async function runCommand(argv: readonly string[], circumstances: Circumstances = {}) {
  const { world, stdout, stderr } = createWorld(circumstances);
  const code = await createCli(world).run(argv);
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
}

/** Every command that does something, by the words that call it: no group, and hidden ones too. */
export function everyCommand(): string[] {
  // Commands use their terminal only when they run.
  return wordsBelow(createProgram(createWorld({}).world, {} as Terminal), []);
}

function wordsBelow({ commands }: Command, words: readonly string[]): string[] {
  if (commands.length === 0) return [words.join(" ")];
  return commands.flatMap((each) => wordsBelow(each, [...words, each.name()]));
}

function createWorld({
  env = {},
  stdin = [],
  serve,
  nodeVersion = process.versions.node,
  columns,
  isTyped = false,
  ...others
}: Circumstances) {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const terminal = columns === undefined ? {} : { isTTY: true, columns };
  const world: CliWorld = {
    ...others,
    env,
    nodeVersion,
    stdin: Object.assign(Readable.from(stdin), { isTTY: isTyped }),
    stdout: { ...terminal, write: (text) => stdout.push(text) },
    stderr: { ...terminal, write: (text) => stderr.push(text) },
    readFile: (path) => readFileSync(path, "utf8"),
    serve: serve ?? (() => Promise.reject(new Error("this test starts no server"))),
  };
  return { world, stdout, stderr };
}
