import { type Command, CommanderError } from "commander";
import { createRedaction } from "../log/redaction.ts";
import { isCallError } from "./call-errors.ts";
import { CommandFailure } from "./command-failure.ts";
import type { Connection } from "./connection.ts";
import { printableText } from "./printable.ts";
import { createProgram } from "./program.ts";
import { createStyle, type OutputStream, wantsColour } from "./style.ts";
import type { Terminal } from "./terminal.ts";

/** What the command line takes from its process. */
export interface CliWorld {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** `process.versions.node`. */
  readonly nodeVersion: string;
  readonly stdin: AsyncIterable<Uint8Array | string> & { readonly isTTY?: boolean };
  readonly stdout: OutputStream & { write(text: string): unknown };
  readonly stderr: OutputStream & { write(text: string): unknown };
  readFile(path: string): string;
  /** How long `doctor` looks at MongoDB; 5 s where it is absent. */
  readonly storeMsMax?: number;
  /** Runs the server until a signal stops it. The result is the exit status. */
  serve(): Promise<number>;
}

/** What a command leaves when it ends. */
interface Leftover {
  exitCode: number;
  connection?: Connection;
  /** The command that ran. */
  command?: Command;
}

/**
 * The command line. Every command but `serve` is a client of the internal listener, and loads only
 * what it uses: people wait for each command.
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
        return failure.exitCode;
      } finally {
        left.connection?.close();
      }
    },
  };
}

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
        left.connection = await connect(env, world.readFile);
      }
      return left.connection;
    },
    print: (line) => void stdout.write(`${printableText(line, { coloured: colourOut === true })}\n`),
    note,
    style: createStyle(colourOut === true),
    ...(stdout.isTTY && stdout.columns !== undefined && { columns: stdout.columns }),
    readLine: () => {
      if (stdin.isTTY) note("Paste the key, then press Enter:");
      return readFirstLine(stdin);
    },
    endWith: (exitCode) => {
      left.exitCode = exitCode;
    },
  };
}

/** The prefix of keys, before the settings are read and checked. */
function keyPrefix({ KEYRUN_KEY_PREFIX: given }: CliWorld["env"]): string {
  return given !== undefined && /^[a-z][a-z0-9]{0,11}$/.test(given) ? given : "svc";
}

async function commandFailure(error: unknown, { connection, command }: Leftover): Promise<CommandFailure> {
  if (error instanceof CommandFailure) return error;
  if (isCallError(error) && connection !== undefined) {
    const { explain } = await import("./refusal-words.ts");
    return explain(error, connection, command);
  }
  const what = error instanceof Error ? error.message : String(error);
  return new CommandFailure(`The command failed: ${what}`, { cause: error });
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
