import type { Command } from "commander";
import { wrongUse } from "./command-failure.ts";
import { append, commandGroup, rpcCommand, withExamples } from "./command-words.ts";
import { rotateKey, type UpdateOptions, updateKey } from "./key-changes.ts";
import { type CreateKeyOptions, createKey } from "./key-create.ts";
import { type ListOptions, listKeys } from "./key-list.ts";
import { revokeKey } from "./key-revoke.ts";
import { type VerifyOptions, verifyKey } from "./key-verify.ts";
import type { ScanOptions, ScanWorld } from "./scan/scan-keys.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

/** An option that may be left out where there is one team. */
export interface TeamOption extends JsonOption {
  team?: string;
}

/** `keys create | list | update | rotate | revoke | verify | scan`. */
export function addKeyCommands(program: Command, terminal: Terminal, world: ScanWorld): void {
  const keys = commandGroup(program, "keys", {
    does: "Manage and verify a team's API keys.",
    examples: ["keys create --team demo --label ci-deploy", "keys list --team demo"],
  });

  rpcCommand(keys, "create", {
    does: "Create a key, and print it alone on standard output: it is shown only once.",
    examples: [
      "keys create --team demo --label ci-deploy",
      "keys create --expires 90d",
      "keys create --app echo --requests-per-minute 10",
      "keys create > key.txt",
    ],
  })
    .option("--team <team_id>", "the team that the key is for (default: the only one)")
    .option("--label <label>", "what to call it, such as ci-deploy")
    .option("--expires <time>", "when it ends: a time from now, like 90d, or a date, like 2027-01-31")
    .option("--app <app_id>", "the only app that it may run; repeat it for more (default: every app)", append)
    .option("--requests-per-minute <number>", "a limit of its own (default: only the team's)")
    .action((options: CreateKeyOptions) => createKey(terminal, options));

  rpcCommand(keys, "list", {
    does: "List a team's keys, newest first.",
    examples: [
      "keys list --team demo --revoked",
      "keys list --search deploy",
      "keys list --unused-for 90d --json",
    ],
  })
    .option("--team <team_id>", "the team (default: the only one)")
    .option("--revoked", "show revoked and expired keys too")
    .option("--search <text>", "only keys whose label has this text, or whose id or redacted form fits it")
    .option("--unused-for <time>", "only active keys without a use in this time, like 90d or 12h")
    .action((options: ListOptions) => listKeys(terminal, options));

  rpcCommand(keys, "update", {
    does: "Change a key's label, or bring its expiry forward.",
    examples: [
      "keys update --label ci-deploy 7k3f0m9x2a4c6e8g1j5n7p9q",
      "keys update --expires 7d svc_7k3f…x9Qz",
    ],
  })
    .argument("<key>", keyNames)
    .option("--team <team_id>", teamOfKey)
    .option("--label <label>", 'what to call it; "" takes the label away')
    .option("--expires <time>", "when it ends: a time from now, like 90d, or a date, like 2027-01-31")
    .action((key: string, options: UpdateOptions) => updateKey(terminal, key, options));

  rpcCommand(keys, "rotate", {
    does: "Replace a key by a new one, and print the new one alone on standard output.",
    examples: ["keys rotate 7k3f0m9x2a4c6e8g1j5n7p9q --overlap 24h", "keys rotate svc_7k3f…x9Qz > key.txt"],
  })
    .argument("<key>", keyNames)
    .option("--team <team_id>", teamOfKey)
    .option("--overlap <time>", "how long the old key goes on, like 24h, at most 30d (default: not at all)")
    .action((key: string, options: TeamOption & { overlap?: string }) => rotateKey(terminal, key, options));

  rpcCommand(keys, "revoke", {
    does: "Revoke a key, at once and for ever.",
    examples: ["keys revoke --team demo 7k3f0m9x2a4c6e8g1j5n7p9q", "keys revoke svc_7k3f…x9Qz"],
  })
    .argument("<key>", keyNames)
    .option("--team <team_id>", teamOfKey)
    .action((key: string, options: TeamOption) => revokeKey(terminal, key, options));

  rpcCommand(keys, "verify", {
    does: "Say whether the key on standard input is good, without spending; exit 0 if it is.",
    examples: ["keys verify < key.txt", "keys verify --app echo < key.txt"],
  })
    .option("--app <app_id>", "the app that it must be allowed to run")
    .allowExcessArguments()
    .action((options: VerifyOptions, { args }: Command) => {
      if (args.length > 0) throw wrongUse(keyOnStandardInput);
      return verifyKey(terminal, options);
    });

  addScan(keys, terminal, world);
}

/** It needs no running server. */
function addScan(keys: Command, terminal: Terminal, world: ScanWorld): void {
  const scan = keys
    .command("scan")
    .description("Find leaked keys in files, offline. Exit 0: none, 1: found, 2: not everything was read.")
    .argument("<path...>", "files and folders, or - for standard input")
    .option("--history", "also all that git has kept of the folders")
    .option("--prefix <prefix>", "the prefix of the keys (default: KEYRUN_KEY_PREFIX, or svc)")
    .option("--json", "print what was found as JSON")
    .action(async (paths: string[], options: ScanOptions) => {
      const { scanKeys } = await import("./scan/scan-keys.ts");
      await scanKeys(world, terminal, { ...options, paths });
    });
  withExamples(scan, ["keys scan .", "keys scan --history ."]);
}

const keyNames = "its id, alone or after the prefix as in svc_<id>; or its redacted form";
const teamOfKey = "the team that the key belongs to (default: the only one)";

const keyOnStandardInput =
  "keys verify reads the key from standard input, since shells keep a history of what is typed: `./keyrun keys verify < key.txt`. If this was a key, remove the line from the history.";
