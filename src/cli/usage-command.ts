import { type Command, Option } from "commander";
import { rpcCommand } from "./command-words.ts";
import type { TeamOption } from "./key-commands.ts";
import type { Terminal } from "./terminal.ts";

export interface UsageOptions extends TeamOption {
  key?: string;
  since: string;
  step?: "hour" | "day";
}

/** `usage`. */
export function addUsageCommand(program: Command, terminal: Terminal): void {
  rpcCommand(program, "usage", {
    does: "Show how a team's keys, or one of them, were used: by hour, or by day of UTC.",
    examples: ["usage --team demo", "usage --team demo --key 7k3f0m9x2a4c6e8g1j5n7p9q --since 30d --json"],
  })
    .option("--team <team_id>", "the team (default: the only one)")
    .option("--key <key_id>", "only this key")
    .option("--since <time>", "how far back, like 7d or 12h", "24h")
    .addOption(
      new Option("--step <step>", "how long each line is; without it, an hour up to 2 days back").choices([
        "hour",
        "day",
      ]),
    )
    .action(async (options: UsageOptions) => {
      const { showUsage } = await import("./usage.ts");
      await showUsage(terminal, options);
    });
}
