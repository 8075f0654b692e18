import { Command } from "commander";
import { readVersion } from "../base/version.ts";
import { addAppCommands } from "./app-commands.ts";
import { addAuditCommand } from "./audit-command.ts";
import type { CliWorld } from "./cli.ts";
import { helpForm, programName, withExamples } from "./command-words.ts";
import { addCompletionCommands } from "./completion/completion-commands.ts";
import { addKeyCommands } from "./key-commands.ts";
import { addMemberCommands } from "./member-commands.ts";
import { addPreviewCommands } from "./preview-commands.ts";
import { addSecretsCommands } from "./secrets-commands.ts";
import { addServiceTokenCommands } from "./service-token-commands.ts";
import { addSignInCommand } from "./sign-in-command.ts";
import { createStyle, wantsColour } from "./style.ts";
import { addTeamCommands } from "./team-commands.ts";
import type { JsonOption, Terminal } from "./terminal.ts";
import { addUsageCommand } from "./usage-command.ts";

/** All commands, with their words. What a command does is loaded when it runs. */
export function createProgram(world: CliWorld, terminal: Terminal): Command {
  const { env, stdout, stderr } = world;
  const program = new Command(programName)
    .description("Lets a team's programs run the team's apps over HTTP with API keys.")
    .version(readVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "Print the help of a command.")
    .showHelpAfterError("(--help shows more)")
    // Commands copy these when they are added, so they come first.
    .exitOverride()
    .configureHelp(helpForm())
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
  const serve = program
    .command("serve")
    .description("Run Keyrun until a signal stops it.")
    .action(async () => terminal.endWith(await world.serve()));
  withExamples(serve, ["serve"]);
  const doctor = program
    .command("doctor")
    .description("Check the settings, the data folder and the running server, and say how to fix each.")
    .option("--json", "print what was found as JSON")
    .action(async (options: JsonOption) => {
      const { runDoctor } = await import("./doctor.ts");
      terminal.endWith(await runDoctor(world, terminal, options));
    });
  withExamples(doctor, ["doctor"]);
  addTeamCommands(program, terminal);
  addMemberCommands(program, terminal);
  addPreviewCommands(program, terminal);
  addAppCommands(program, terminal);
  addKeyCommands(program, terminal, world);
  addUsageCommand(program, terminal);
  addServiceTokenCommands(program, terminal);
  addAuditCommand(program, terminal);
  addSignInCommand(program, terminal);
  const fleet = program
    .command("fleet")
    .description("List the instances of a fleet, as the database knows them.")
    .option("--json", "print the instances as JSON")
    .action(async (options: JsonOption) => {
      const { listInstances } = await import("./fleet-list.ts");
      await listInstances(world, terminal, options);
    });
  withExamples(fleet, ["fleet"]);
  addSecretsCommands(program, terminal, world);
  const copy = program
    .command("copy-to-mongodb")
    .description("Copy a data folder, whose Keyrun is stopped, into an empty MongoDB database.")
    .option("--json", "print how many records were copied as JSON")
    .action(async (options: JsonOption) => {
      const { copyToMongodb } = await import("./copy-to-mongodb.ts");
      await copyToMongodb(world, terminal, options);
    });
  withExamples(copy, ["copy-to-mongodb"]);
  addCompletionCommands(program, terminal);
  return program;
}

const widthElse = 80;
