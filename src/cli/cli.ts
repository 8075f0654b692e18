import { ConnectError } from "@connectrpc/connect";
import { Command, CommanderError } from "commander";
import { createRedaction } from "../log.ts";
import { type Environment, readSettings } from "../settings/read-settings.ts";
import { addAppCommands } from "./app-commands.ts";
import { CommandFailure } from "./command-failure.ts";
import { type Connection, openConnection, readAddress, readServiceToken } from "./connection.ts";
import { runDoctor } from "./doctor.ts";
import { addKeyCommands } from "./key-commands.ts";
import { addMemberCommands } from "./member-commands.ts";
import { addPreviewCommands } from "./preview-commands.ts";
import { failureFrom } from "./rpc-failure.ts";
import { addSecretsCommands } from "./secrets-commands.ts";
import { addSignInCommand } from "./sign-in-command.ts";
import { addTeamCommands } from "./team-commands.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

/** What the command line takes from its process. */
export interface CliWorld {
  readonly env: Environment;
  /** `process.versions.node`. */
  readonly nodeVersion: string;
  readonly stdin: AsyncIterable<Uint8Array | string> & { readonly isTTY?: boolean };
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
  readFile(path: string): string;
  /** Runs the server until a signal stops it. The result is the exit status. */
  serve(): Promise<number>;
}

/**
 * The command line. Every command but `serve` is a client of the internal listener.
 *
 * `run` takes the arguments after the program's name and never throws. Its result is the exit
 * status: 0 for success, 1 for a failure (with a sentence on standard error), 2 for wrong use.
 * Let the process end by itself afterwards: `process.exit` could cut off its output.
 */
export function createCli(world: CliWorld): { run(argv: readonly string[]): Promise<number> } {
  return {
    async run(argv) {
      const { terminal, ended } = openTerminal(world);
      try {
        await createProgram(world, terminal).parseAsync(argv, { from: "user" });
        return ended.exitCode;
      } catch (error) {
        // Commander has printed its message already.
        if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
        const failure = commandFailure(error, ended.connection);
        terminal.note(failure.message);
        return failure.exitCode;
      } finally {
        ended.connection?.close();
      }
    },
  };
}

function createProgram(world: CliWorld, terminal: Terminal): Command {
  const program = new Command("./keyrun")
    .description("Lets a team's programs run the team's apps over HTTP with API keys.")
    .showHelpAfterError("(--help shows more)")
    // Commands copy these two when they are added, so both come first.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => world.stdout.write(text),
      writeErr: (text) => terminal.note(text.trimEnd()),
    });
  program
    .command("serve")
    .description("Run Keyrun until a signal stops it.")
    .action(async () => terminal.endWith(await world.serve()));
  program
    .command("doctor")
    .description("Check the settings, the data folder and the running server, and say how to fix each.")
    .option("--json", "print what was found as JSON")
    .action(async (options: JsonOption) => terminal.endWith(await runDoctor(world, terminal, options)));
  addTeamCommands(program, terminal);
  addMemberCommands(program, terminal);
  addPreviewCommands(program, terminal);
  addAppCommands(program, terminal);
  addKeyCommands(program, terminal);
  addSignInCommand(program, terminal);
  addSecretsCommands(program, terminal, world);
  return program;
}

/** The terminal of one command, and the exit status and the connection that the command leaves. */
function openTerminal(world: CliWorld) {
  const ended: { exitCode: number; connection?: Connection } = { exitCode: 0 };
  // Error messages repeat arguments, and people do pass a key as an argument by mistake.
  const redact = createRedaction("svc", []);
  const note = (line: string) => void world.stderr.write(`${redact(line)}\n`);
  const terminal: Terminal = {
    server() {
      ended.connection ??= connect(world);
      return ended.connection;
    },
    print: (line) => void world.stdout.write(`${line}\n`),
    note,
    readLine: () => {
      if (world.stdin.isTTY) note("Paste the key, then press Enter:");
      return readFirstLine(world.stdin);
    },
    endWith: (exitCode) => {
      ended.exitCode = exitCode;
    },
  };
  return { terminal, ended };
}

function connect({ env, readFile }: CliWorld): Connection {
  const settings = readSettings(env, readFile);
  if ("problems" in settings) throw new CommandFailure(settings.problems.join("\n"));
  const config = settings.ok;
  const address = readAddress(config, env);
  return openConnection({ address, serviceToken: readServiceToken(config), tls: config.grpcTls });
}

function commandFailure(error: unknown, connection: Connection | undefined): CommandFailure {
  if (error instanceof CommandFailure) return error;
  if (error instanceof ConnectError && connection !== undefined)
    return failureFrom(error, connection.address);
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
