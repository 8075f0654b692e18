import type { Command } from "commander";
import { rpcCommand } from "./command-words.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

export interface AuditOptions extends JsonOption {
  team?: string;
  actor?: string;
  action?: string;
  since?: string;
  follow?: boolean;
}

/** `audit`. */
export function addAuditCommand(program: Command, terminal: Terminal): void {
  rpcCommand(program, "audit", {
    does: "Show who changed what, newest last, and what was refused.",
    examples: ["audit --team demo --since 7d", "audit --action key.revoke --json", "audit --follow"],
  })
    .option("--team <team_id>", "only what is about this team")
    .option("--actor <name>", "only what this member or service did, by its whole name")
    .option("--action <action>", "only this action, such as key.revoke")
    .option("--since <time>", "only the last days, hours or minutes, like 7d, 12h or 30m (default: 1d)")
    .option("--follow", "go on, and show each event as it comes, until Ctrl-C")
    .action(async (options: AuditOptions) => {
      const { listEvents } = await import("./audit-list.ts");
      await listEvents(terminal, options);
    });
}
