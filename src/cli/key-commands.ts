import type { Command } from "commander";
import { wrongUse } from "./command-failure.ts";
import { commandGroup, rpcCommand } from "./command-words.ts";
import { createKey } from "./key-create.ts";
import { type ListOptions, listKeys } from "./key-list.ts";
import { revokeKey } from "./key-revoke.ts";
import { verifyKey } from "./key-verify.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

/** An option that may be left out where there is one team. */
export interface TeamOption extends JsonOption {
  team?: string;
}

/** `keys create | list | revoke | verify`. */
export function addKeyCommands(program: Command, terminal: Terminal): void {
  const keys = commandGroup(program, "keys", {
    does: "Manage and verify a team's API keys.",
    examples: ["keys create --team demo --label ci-deploy", "keys list --team demo"],
  });

  rpcCommand(keys, "create", {
    does: "Create a key, and print it alone on standard output: it is shown only once.",
    examples: ["keys create --team demo --label ci-deploy", "keys create > key.txt"],
  })
    .option("--team <team_id>", "the team that the key is for (default: the only one)")
    .option("--label <label>", "what to call it, such as ci-deploy")
    .action((options: TeamOption & { label?: string }) => createKey(terminal, options));

  rpcCommand(keys, "list", {
    does: "List a team's keys, newest first.",
    examples: [
      "keys list --team demo --revoked",
      "keys list --search deploy",
      "keys list --unused-for 90d --json",
    ],
  })
    .option("--team <team_id>", "the team (default: the only one)")
    .option("--revoked", "show revoked keys too")
    .option("--search <text>", "only keys whose label has this text, or whose id or redacted form fits it")
    .option("--unused-for <time>", "only active keys without a use in this time, like 90d or 12h")
    .action((options: ListOptions) => listKeys(terminal, options));

  rpcCommand(keys, "revoke", {
    does: "Revoke a key, at once and for ever.",
    examples: ["keys revoke --team demo 7k3f0m9x2a4c6e8g1j5n7p9q", "keys revoke svc_7k3f…x9Qz"],
  })
    .argument("<key>", "its id, alone or after the prefix as in svc_<id>; or its redacted form")
    .option("--team <team_id>", "the team that the key belongs to (default: the only one)")
    .action((key: string, options: TeamOption) => revokeKey(terminal, key, options));

  rpcCommand(keys, "verify", {
    does: "Say whether the key on standard input is good, without spending; exit 0 if it is.",
    examples: ["keys verify < key.txt"],
  })
    .allowExcessArguments()
    .action((options: JsonOption, { args }: Command) => {
      if (args.length > 0) throw wrongUse(keyOnStandardInput);
      return verifyKey(terminal, options);
    });
}

const keyOnStandardInput =
  "keys verify reads the key from standard input, since shells keep a history of what is typed: `./keyrun keys verify < key.txt`. If this was a key, remove the line from the history.";
