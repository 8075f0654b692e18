import type { Command } from "commander";
import { commandGroup, withExamples } from "./command-words.ts";
import type { SecretsWorld } from "./secrets-file.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

/** `secrets list | rotate | add | promote | drop`. They need no running server. */
export function addSecretsCommands(program: Command, terminal: Terminal, world: SecretsWorld): void {
  const secrets = commandGroup(program, "secrets", {
    does: "Rotate the service secret, which the digests of keys are made with.",
    examples: ["secrets rotate", "secrets list", "secrets add"],
  });
  const list = secrets
    .command("list")
    .description("Show the versions of the secrets that the next start of Keyrun reads, newest first.")
    .option("--json", "print the versions as JSON")
    .action(async (options: JsonOption) => {
      const { listSecrets } = await import("./secret-list.ts");
      await listSecrets(world, terminal, options);
    });
  withExamples(list, ["secrets list"]);
  const rotate = secrets
    .command("rotate")
    .description("Put a new secret before the old ones, for the next start of Keyrun.")
    .option("--json", "print the versions of the secrets as JSON")
    .action(async (options: JsonOption) => {
      const { rotateSecrets } = await import("./secret-rotation.ts");
      await rotateSecrets(world, terminal, options);
    });
  withExamples(rotate, ["secrets rotate"]);
  addRounds(secrets, terminal, world);
}

function addRounds(secrets: Command, terminal: Terminal, world: SecretsWorld): void {
  const add = secrets
    .command("add")
    .description("In a fleet, round 1: put a new secret after the others, for every instance to know.")
    .option("--json", "print the versions of the secrets as JSON")
    .action(async (options: JsonOption) => {
      const { addSecret } = await import("./secret-rounds.ts");
      await addSecret(world, terminal, options);
    });
  withExamples(add, ["secrets add"]);
  const promote = secrets
    .command("promote")
    .description("Round 2: put the last secret first. Refused until every instance knows it.")
    .option("--json", "print the versions of the secrets as JSON")
    .action(async (options: JsonOption) => {
      const { promoteSecret } = await import("./secret-rounds.ts");
      await promoteSecret(world, terminal, options);
    });
  withExamples(promote, ["secrets promote"]);
  const drop = secrets
    .command("drop")
    .description("Round 3: remove an old secret. Refused while a key or an instance needs it.")
    .argument("[version]", "as `secrets list` shows it (default: that of the last secret)")
    .option("--json", "print the versions of the secrets as JSON")
    .action(async (version: string | undefined, options: JsonOption) => {
      const { dropSecret } = await import("./secret-rounds.ts");
      await dropSecret(world, terminal, { ...options, version });
    });
  withExamples(drop, ["secrets drop", "secrets drop 57e586e3"]);
}
