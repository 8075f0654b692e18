/** The command line as a whole: the process around it, all commands, and how each of them ends. */

import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { readVersion } from "../base/program.ts";
import { createRedaction } from "../log/redaction.ts";
import { addAppCommands } from "./apps.ts";
import { addAuditCommand } from "./audit.ts";
import { programHere } from "./called.ts";
import { groupCommands, helpForm, withExamples } from "./command-words.ts";
import { addCompletionCommands } from "./completion.ts";
import type { Connection } from "./connection.ts";
import { CommandFailure, isCallError, wrongUse } from "./failures.ts";
import { addKeyCommands } from "./keys.ts";
import { addMemberCommands, addPreviewCommands, addSignInCommand } from "./members.ts";
import { addServeCommands, addStoreCommands } from "./offline-commands.ts";
import { addRunCommands } from "./runs.ts";
import { addServiceTokenCommands } from "./service-tokens.ts";
import { addTeamCommands } from "./teams.ts";
import {
  type CliWorld,
  createStyle,
  printableJson,
  printableOutput,
  printableText,
  type Terminal,
  wantsColour,
} from "./terminal.ts";
import { addUsageCommand } from "./usage.ts";

/** Runs the command of this process. The result is for `process.exitCode`: see `createCli`. */
export function runCli(
  argv: readonly string[],
  { serve }: { serve: () => Promise<number> },
): Promise<number> {
  // In `keyrun keys list | head` the reader closes the pipe early, which is no failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });
  return createCli({
    env: process.env,
    nodeVersion: process.versions.node,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    readFile: (path) => readFileSync(path, "utf8"),
    serve,
  }).run(argv);
}

/**
 * The command line. Its commands are clients of the internal listener, or of the public one where
 * an API key does what they say. Each loads only what it uses: people wait for each command.
 *
 * `run` takes the arguments after the program's name and never throws. Its result is the exit
 * status: 0 for success, 1 for a failure (with a sentence on standard error), 2 for wrong use.
 * Let the process end by itself afterwards: `process.exit` could cut off its output.
 */
export function createCli(world: CliWorld): { run(argv: readonly string[]): Promise<number> } {
  return {
    async run(argv) {
      const left: Leftover = { exitCode: 0 };
      const terminal = openTerminal(world, left);
      try {
        const program = createProgram(world, terminal);
        program.hook("preAction", (_, command) => {
          left.command = command;
        });
        await program.parseAsync(argv, { from: "user" });
        return left.exitCode;
      } catch (error) {
        // Commander has printed its message already.
        if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
        const failure = await commandFailure(error, left);
        terminal.note(createStyle(wantsColour(world.env, world.stderr)).bad(failure.message));
        const { json, stream } = left.command?.opts() ?? {};
        // A stream is a message a line, and its failure is one, too.
        if (json) terminal.print(errorJson(failure, world, stream ? 0 : 2));
        return failure.exitCode;
      } finally {
        left.connection?.close();
      }
    },
  };
}

/** What a program that asked for JSON gets: as standard error, it repeats no key. */
function errorJson({ error }: CommandFailure, { env }: CliWorld, indentation: number): string {
  return createRedaction(keyPrefix(env), [])(printableJson({ error }, indentation));
}

/** What a command leaves when it ends. */
interface Leftover {
  exitCode: number;
  connection?: Connection;
  /** The command that ran. */
  command?: Command;
}

/** All commands, with their words. What needs much code to run is loaded when it runs. */
export function createProgram(world: CliWorld, terminal: Terminal): Command {
  const { env, stdout, stderr } = world;
  const shows = { all: false };
  const program = new Command(programHere)
    .description("Lets a team's programs run the team's apps over HTTP with API keys.")
    .version(readVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "Print the help of a command.")
    .option("--help-all", "print this help with all commands, those for operators too")
    .showHelpAfterError("(--help shows more)")
    // Commands copy these when they are added, so they come first.
    .exitOverride()
    .configureHelp(helpForm(() => shows.all))
    .configureOutput({
      writeOut: (text) => terminal.print(text.replace(/\n$/, "")),
      writeErr: (text) => terminal.note(text.trimEnd()),
      outputError: (text, write) => write(createStyle(wantsColour(env, stderr)).bad(text.trimEnd())),
      getOutHasColors: () => wantsColour(env, stdout),
      getErrHasColors: () => wantsColour(env, stderr),
      ...(stdout.columns !== undefined && { getOutHelpWidth: () => stdout.columns ?? widthElse }),
      ...(stderr.columns !== undefined && { getErrHelpWidth: () => stderr.columns ?? widthElse }),
    });
  withExamples(program, ["serve", "keys create --team demo --label ci-deploy", "completion bash"]);
  addServeCommands(program, terminal, world);
  withExamples(program.command("version").description("Print the version."), ["version"]).action(() =>
    terminal.print(readVersion()),
  );
  addTeamCommands(program, terminal);
  addMemberCommands(program, terminal);
  addPreviewCommands(program, terminal);
  addAppCommands(program, terminal, world);
  addKeyCommands(program, terminal, world);
  addRunCommands(program, terminal, world);
  addUsageCommand(program, terminal);
  addServiceTokenCommands(program, terminal);
  addAuditCommand(program, terminal);
  addSignInCommand(program, terminal);
  addStoreCommands(program, terminal, world);
  addCompletionCommands(program, terminal);
  groupCommands(program);
  program.on("option:help-all", () => {
    shows.all = true;
    program.help();
  });
  return program;
}

const widthElse = 80;

function openTerminal(world: CliWorld, left: Leftover): Terminal {
  const { env, stdin, stdout, stderr } = world;
  // Error messages repeat arguments, and people do pass a key as an argument by mistake.
  const redact = createRedaction(keyPrefix(env), []);
  const [colourOut, colourErr] = [stdout, stderr].map((stream) => wantsColour(env, stream));
  const note = (line: string) =>
    void stderr.write(`${printableText(redact(line), { coloured: colourErr === true })}\n`);
  return {
    async server() {
      if (left.connection === undefined) {
        const { connect } = await import("./connection.ts");
        left.connection = await connect(world);
      }
      return left.connection;
    },
    print: (line) => void stdout.write(`${printableText(line, { coloured: colourOut === true })}\n`),
    writeText: (pieces) => writeText(stdout, pieces),
    note,
    style: createStyle(colourOut === true),
    get tableOptions() {
      return left.command?.opts() ?? {};
    },
    ...(stdout.isTTY && stdout.columns !== undefined && { columns: stdout.columns }),
    readLine: () => {
      if (stdin.isTTY) note("Paste the key, then press Enter:");
      return readFirstLine(stdin);
    },
    async confirm(question, { yes }) {
      if (yes) return;
      if (!stdin.isTTY) throw wrongUse(`${question} Nobody can be asked here: say it with --yes.`);
      note(`${question} Type yes, then press Enter:`);
      const line = await readFirstLine(stdin);
      if (!/^y(es)?$/i.test(line)) throw new CommandFailure("Nothing is changed.");
    },
    readText: (bytesMax) => readText(stdin, bytesMax),
    endWith: (exitCode) => {
      left.exitCode = exitCode;
    },
  };
}

/** The prefix of keys, before the settings are read and checked. */
function keyPrefix({ KEYRUN_KEY_PREFIX: given }: CliWorld["env"]): string {
  return given !== undefined && /^[a-z][a-z0-9]{0,11}$/.test(given) ? given : "svc";
}

const lineCharactersMax = 4_096;

/** The first line of a stream, trimmed and cut at `lineCharactersMax`; empty if there is none. */
async function readFirstLine(input: AsyncIterable<Uint8Array | string>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of input) {
    text += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
    if (text.includes("\n") || text.length > lineCharactersMax) break;
  }
  return (text.split("\n")[0] ?? "").trim().slice(0, lineCharactersMax);
}

async function readText(input: AsyncIterable<Uint8Array | string>, bytesMax: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of input) {
    const piece = Buffer.from(chunk);
    bytes += piece.byteLength;
    if (bytes > bytesMax) throw new CommandFailure(`Standard input is longer than ${bytesMax} bytes.`);
    chunks.push(piece);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch (cause) {
    throw new CommandFailure("Standard input is not a text in UTF-8.", { cause });
  }
}

async function writeText(
  stdout: CliWorld["stdout"],
  pieces: Parameters<Terminal["writeText"]>[0],
): Promise<void> {
  let last = "\n";
  try {
    for await (const piece of pieces) {
      if (stdout.writable === false) return;
      if (piece === undefined || piece === "") continue;
      stdout.write(stdout.isTTY ? printableOutput(piece) : piece);
      last = piece;
    }
  } finally {
    if (stdout.isTTY && !last.endsWith("\n")) stdout.write("\n");
  }
}

async function commandFailure(error: unknown, { connection, command }: Leftover): Promise<CommandFailure> {
  if (error instanceof CommandFailure) return error;
  if (isCallError(error) && connection !== undefined) {
    const { explain } = await import("./refusal-words.ts");
    return explain(error, connection, command);
  }
  // What a start refuses, the commands of the store refuse, too.
  const { StartRefused } = await import("../refusal/start-refused.ts");
  if (error instanceof StartRefused) return new CommandFailure(error.message, { cause: error });
  const what = error instanceof Error ? error.message : String(error);
  return new CommandFailure(`The command failed: ${what}`, { cause: error });
}
