import type { Command } from "commander";
import { commandGroup, withExamples } from "./command-words.ts";
import type { SecretsWorld } from "./secret-rotation.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

/** `secrets list | rotate`. They need no running server. */
export function addSecretsCommands(program: Command, terminal: Terminal, world: SecretsWorld): void {
  const secrets = commandGroup(program, "secrets", {
    does: "Rotate the service secret, which the digests of keys are made with.",
    examples: ["secrets rotate", "secrets list"],
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
}
