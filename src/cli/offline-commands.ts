/**
 * The commands that call no server, but for what `doctor` asks one: they work on the settings, the
 * data folder and the store. Each loads what it does when it runs.
 */

import type { Command } from "commander";
import {
  type CommandWords,
  commandGroup,
  withConfirmation,
  withExamples,
  withTable,
} from "./command-words.ts";
import type { CliWorld, ConfirmOption, JsonOption, Terminal } from "./terminal.ts";

/** `serve | doctor`. */
export function addServeCommands(program: Command, terminal: Terminal, world: CliWorld): void {
  const serve = program.command("serve").description("Run Keyrun until a signal stops it.");
  withExamples(serve, ["serve"]).action(async () => terminal.endWith(await world.serve()));

  offlineCommand(program, "doctor", {
    does: "Check the settings, the data folder and the running server, and say how to fix each.",
    json: "print what was found as JSON",
    examples: ["doctor"],
  }).action(async (options: JsonOption) => {
    const { runDoctor } = await import("./doctor.ts");
    terminal.endWith(await runDoctor(world, terminal, options));
  });
}

/** `fleet`, `secrets …`, `backup`, `restore` and `copy-to-mongodb`. */
export function addStoreCommands(program: Command, terminal: Terminal, world: CliWorld): void {
  offlineCommand(program, "fleet", {
    does: "List the instances of a fleet, as the database knows them.",
    json: "print the instances as JSON",
    examples: ["fleet"],
    table: true,
  }).action(async (options: JsonOption) => {
    const { listInstances } = await import("./fleet-list.ts");
    await listInstances(world, terminal, options);
  });

  addSecretsCommands(program, terminal, world);

  offlineCommand(program, "backup", {
    does: "Copy the embedded store and its secret into a new folder, also while Keyrun runs.",
    json: "print what was copied as JSON",
    examples: ["backup backups/monday"],
  })
    .argument("<folder>", "where the copy goes; it is made")
    .action(async (folder: string, options: JsonOption) => {
      const { backUp } = await import("./backup.ts");
      await backUp(world, terminal, folder, options);
    });

  offlineCommand(program, "restore", {
    does: "Put a backup in place of the embedded store, whose Keyrun is stopped. What was revoked since stays revoked.",
    json: "print what was restored as JSON",
    examples: ["restore backups/monday"],
  })
    .argument("<folder>", "what `backup` made")
    .action(async (folder: string, options: JsonOption) => {
      const { restore } = await import("./backup.ts");
      await restore(world, terminal, folder, options);
    });

  offlineCommand(program, "copy-to-mongodb", {
    does: "Copy a data folder, whose Keyrun is stopped, into an empty MongoDB database.",
    json: "print how many records were copied as JSON",
    examples: ["copy-to-mongodb"],
  }).action(async (options: JsonOption) => {
    const { copyToMongodb } = await import("./copy-to-mongodb.ts");
    await copyToMongodb(world, terminal, options);
  });
}

function addSecretsCommands(program: Command, terminal: Terminal, world: CliWorld): void {
  const secrets = commandGroup(program, "secrets", {
    does: "Rotate the service secret, which the digests of keys are made with.",
    examples: ["secrets rotate", "secrets list", "secrets add"],
  });
  const load = () => import("./secrets.ts");

  offlineCommand(secrets, "list", {
    does: "Show the versions of the secrets that the next start of Keyrun reads, newest first.",
    json: "print the versions as JSON",
    examples: ["secrets list"],
  }).action(async (options: JsonOption) => (await load()).listSecrets(world, terminal, options));

  offlineCommand(secrets, "rotate", {
    does: "Put a new secret before the old ones, for the next start of Keyrun.",
    json: versionsAsJson,
    examples: ["secrets rotate"],
  }).action(async (options: JsonOption) => (await load()).rotateSecrets(world, terminal, options));

  offlineCommand(secrets, "add", {
    does: "In a fleet, round 1: put a new secret after the others, for every instance to know.",
    json: versionsAsJson,
    examples: ["secrets add"],
  }).action(async (options: JsonOption) => (await load()).addSecret(world, terminal, options));

  offlineCommand(secrets, "promote", {
    does: "Round 2: put the last secret first. Refused until every instance knows it.",
    json: versionsAsJson,
    examples: ["secrets promote"],
  }).action(async (options: JsonOption) => (await load()).promoteSecret(world, terminal, options));

  const drop = offlineCommand(secrets, "drop", {
    does: "Round 3: remove an old secret. Refused while a key or an instance needs it.",
    json: versionsAsJson,
    examples: ["secrets drop", "secrets drop 57e586e3 --yes"],
  });
  withConfirmation(drop)
    .argument("[version]", "as `secrets list` shows it (default: that of the last secret)")
    .action(async (version: string | undefined, options: JsonOption & ConfirmOption) =>
      (await load()).dropSecret(world, terminal, { ...options, version }),
    );
}

const versionsAsJson = "print the versions of the secrets as JSON";

/** `json` says what the command prints with `--json`. */
function offlineCommand(parent: Command, name: string, words: CommandWords & { json: string }): Command {
  const command = parent.command(name).description(words.does).option("--json", words.json);
  return withTable(withExamples(command, words.examples), words);
}
