import { ConnectError } from "@connectrpc/connect";
import { Command, CommanderError } from "commander";
import { createRedaction } from "../log.ts";
import { type Environment, readSettings } from "../settings.ts";
import { addAppCommands } from "./app-commands.ts";
import { CommandFailure } from "./command-failure.ts";
import { type Connection, openConnection, readAddress, readServiceToken } from "./connection.ts";
import { runDoctor } from "./doctor.ts";
import { readFirstLine } from "./first-line.ts";
import { addKeyCommands } from "./key-commands.ts";
import { addMemberCommands } from "./member-commands.ts";
import { addPreviewCommands } from "./preview-commands.ts";
import { failureFrom } from "./rpc-failure.ts";
import { addSignInCommand } from "./sign-in-command.ts";
import { addTeamCommands } from "./team-commands.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

/** The process around the command line. */
export interface CliWorld {
  readonly env: Environment;
  /** `process.versions.node`. */
  readonly nodeVersion: string;
  readonly stdin: AsyncIterable<Uint8Array | string> & { readonly isTTY?: boolean };
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
  readFile(path: string): string;
  /** Runs the server until it is told to stop; answers with the status to exit with. */
  serve(): Promise<number>;
}

/**
 * The command line: a client of the internal listener, but for `serve`. `run` takes the arguments after the
 * program's name and answers with the status to exit with: 0; 1 failed, with a sentence on standard error; 2 wrong
 * use. It never throws. Let the process end by itself afterwards, so that what was written reaches its reader.
 */
export function createCli(world: CliWorld): { run(argv: readonly string[]): Promise<number> } {
  return {
    async run(argv) {
      const { terminal, ended } = openTerminal(world);
      try {
        await createProgram(world, terminal).parseAsync(argv, { from: "user" });
        return ended.exitCode;
      } catch (error) {
        // What commander has to say, it has said.
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
  const program = new Command("npx --no-install keyrun")
    .description("Lets a team's programs run the team's apps over HTTP with API keys.")
    .showHelpAfterError("(--help tells more)")
    // Both before the commands are added, which take them over.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => world.stdout.write(text),
      writeErr: (text) => terminal.note(text.trimEnd()),
    });
  program
    .command("serve")
    .description("Run Keyrun until it is told to stop.")
    .action(async () => terminal.endWith(await world.serve()));
  program
    .command("doctor")
    .description("Check the settings, the data folder and the running server, and say how to put each right.")
    .option("--json", "print what was found as JSON")
    .action(async (options: JsonOption) => terminal.endWith(await runDoctor(world, terminal, options)));
  addTeamCommands(program, terminal);
  addMemberCommands(program, terminal);
  addPreviewCommands(program, terminal);
  addAppCommands(program, terminal);
  addKeyCommands(program, terminal);
  addSignInCommand(program, terminal);
  return program;
}

/** The terminal, and what a command left behind on it. */
function openTerminal(world: CliWorld) {
  const ended: { exitCode: number; connection?: Connection } = { exitCode: 0 };
  // A key in the wrong place is often an argument, and arguments are repeated in what is told about them.
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
